-- More and more new flows a second, until the gateway does not keep up: the client of every packet is drawn among so
-- many that nearly each is the first of a UDP flow. The servers are silent. Once there are more than the gateway's table
-- holds, the later steps say what a flood does to it.
--
--   FG_FLOWS    flows to draw from                    1000000000
--   FG_FROM     percent of the line rate, first step  0.1
--   FG_TO       last step                             5
--   FG_STEPS                                          8
--   FG_SECONDS  a step                                5
--   FG_LOSS     percent that a step may lose          0.01

package.path = package.path .. ";?.lua;scripts/pktgen/?.lua"
local flowgate = require("flowgate")
local setting = flowgate.setting

local from, to, steps = setting("from", 0.1), setting("to", 5), setting("steps", 8)
local seconds, most_lost = setting("seconds", 5), setting("loss", 0.01)

flowgate.begin()
local flows = flowgate.drawn_flows(setting("flows", 1000000000))
flowgate.size(64)
print(("drawn from %d flows; a step is %d s"):format(flows, seconds))

local best
for step = 1, steps do
    -- Each as much more than the one before, as new flows go by factors.
    local rate = from * (to / from) ^ ((step - 1) / math.max(1, steps - 1))
    pktgen.set(flowgate.clients, "rate", rate)
    local total = flowgate.run(flowgate.clients, seconds, function() end)
    local lost = flowgate.summary(("%.3f %% of the line rate"):format(rate), { up = total.up, down = total.down })
    local new_flows = total.up.sent / seconds
    if lost > most_lost then
        print(("  %.0f new flows a second are too many"):format(new_flows))
        break
    end
    best = new_flows
end
if best then
    print(("the gateway kept up with %.0f new flows a second"):format(best))
else
    print("the gateway did not keep up with the first step")
end
