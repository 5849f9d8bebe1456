-- IMIX: seven frames of 64 bytes, four of 594 and one of 1518, in both directions, each with a client's port drawn at
-- random, so that up to 196,608 UDP flows each way come about.
--
--   FG_RATE     percent of the line rate   1
--   FG_SECONDS                             10

package.path = package.path .. ";?.lua;scripts/pktgen/?.lua"
local flowgate = require("flowgate")
local setting = flowgate.setting

-- The long ones apart from each other.
local ORDER = { 64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64 }

-- Where an IPv4 UDP packet has its ports, and which of these 32 bits are drawn: 14 of the client's port.
local PORTS_AT = 34
local CLIENTS_PORT = { up = "10XXXXXXXXXXXXXX................", down = "................10XXXXXXXXXXXXXX" }

local function sequence(port, way)
    for at, size in ipairs(ORDER) do
        local client, server = flowgate.address(0x0a000000 + 7 * at), flowgate.address(0xc6120000 + at)
        local packet = {
            eth_src_addr = "02:00:00:00:0c:01",
            eth_dst_addr = "02:00:00:00:05:01",
            ip_src_addr = client .. "/10",
            ip_dst_addr = server,
            sport = 32768,
            dport = 443,
        }
        if way == "down" then
            packet.eth_src_addr, packet.eth_dst_addr = packet.eth_dst_addr, packet.eth_src_addr
            packet.ip_src_addr, packet.ip_dst_addr = server .. "/10", client
            packet.sport, packet.dport = packet.dport, packet.sport
        end
        packet.ethType, packet.ipProto, packet.pktSize = "ipv4", "udp", size
        packet.vlanid, packet.teid, packet.gtpu_teid, packet.cos, packet.tos = 1, 0, 0, 0, 0
        pktgen.seqTable(at - 1, port, packet)
    end
    pktgen.set(port, "seq_cnt", #ORDER)
    pktgen.rnd(port, 0, PORTS_AT, CLIENTS_PORT[way])
end

flowgate.begin()
sequence(flowgate.clients, "up")
sequence(flowgate.servers, "down")
pktgen.set("all", "rate", setting("rate", 1))
print(("IMIX 7:4:1 of 64, 594, 1518 bytes, %s %% of the line rate"):format(setting("rate", 1)))
local total = flowgate.run("all", setting("seconds", 10), flowgate.show)
flowgate.summary("IMIX", total)
