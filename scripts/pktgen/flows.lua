-- A range of flows in both directions, at a share of the line rate.
--
--   FG_FLOWS    how many, at least; above 24000 the client is drawn for each packet   10000
--   FG_SIZE     frame length with its FCS       64
--   FG_RATE     percent of the line rate        1
--   FG_SECONDS                                  10
--   FG_PROTO    udp, or tcp: segments without SYN, which the gateway takes as flows only with
--               `flowgate.tcp.unknown_flow=adopt`
--   FG_WAYS     both, up (clients send), down   both

package.path = package.path .. ";?.lua;scripts/pktgen/?.lua"
local flowgate = require("flowgate")
local setting = flowgate.setting

local WAYS = {
    both = flowgate.clients .. "," .. flowgate.servers,
    up = flowgate.clients,
    down = flowgate.servers,
}

flowgate.begin()
local flows = setting("flows", 10000)
if flows <= flowgate.most_in_range then
    flows = flowgate.flows(flows, setting("proto", "udp"))
else
    flows = flowgate.drawn_flows(flows)
end
flowgate.size(setting("size", 64))
pktgen.set("all", "rate", setting("rate", 1))

print(("%d flows, frames of %d bytes, %s %% of the line rate"):format(flows, setting("size", 64), setting("rate", 1)))
local total = flowgate.run(WAYS[setting("ways", "both")], setting("seconds", 10), flowgate.show)
flowgate.summary("flows", total)
