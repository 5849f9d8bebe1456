-- Failover under load: traffic runs in both directions, a human (or whoever reads along) is told when to kill a target,
-- and what comes back is counted second by second: how deep the dip is, how long it lasts, what is lost in all.
--
-- UDP flows of a target that failed move to another with `target_failover.on_unhealthy=rebalance`, and go on into the
-- void with `no_rebalance`: the dip does not end. (TCP resets need ends that speak TCP: flowgate-load has them.)
--
--   FG_FLOWS    flows                          10000
--   FG_RATE     percent of the line rate       1
--   FG_BEFORE   seconds before the death       5
--   FG_AFTER    seconds after it               15
--   FG_KILL     a command that kills it; without one a line says when to
--   FG_WHOLE    percent of the usual packets a second that count as whole again   99

package.path = package.path .. ";?.lua;scripts/pktgen/?.lua"
local flowgate = require("flowgate")
local setting = flowgate.setting

local before, after = setting("before", 5), setting("after", 15)
local kill, whole = setting("kill", ""), setting("whole", 99)

flowgate.begin()
local flows = flowgate.flows(setting("flows", 10000), "udp")
flowgate.size(setting("size", 64))
pktgen.set("all", "rate", setting("rate", 1))
print(("%d flows; the target dies after %d s"):format(flows, before))

-- The lowest and the last of the seconds after the death, as a share of what was sent in them, and how many seconds
-- were less than whole.
local lowest, last, dip = 100, 100, 0

local function sampled(second, passed)
    flowgate.show(second, passed)
    local sent = passed.up.sent + passed.down.sent
    if second > before and sent > 0 then
        last = 100 * (passed.up.received + passed.down.received) / sent
        lowest = math.min(lowest, last)
        if last < whole then
            dip = dip + 1
        end
    end
    if second == before then
        if kill ~= "" then
            print("KILLED now: " .. kill)
            os.execute(kill)
        else
            print(">>> KILL A TARGET NOW <<<")
        end
    end
end

local total = flowgate.run(flowgate.clients .. "," .. flowgate.servers, before + after, sampled)
flowgate.summary("failover", total)
print(("  at worst %.1f %% came back in a second, %d s were below %s %%"):format(lowest, dip, whole))
if last >= whole then
    print("  all comes back again")
else
    print(("  in the last second %.1f %% came back: the flows of the dead target are lost"):format(last))
end
