-- IMIX: seven frames of 64 bytes, four of 594 and one of 1518, in both directions. Each has a flow of its own; with
-- Pktgen 26.02, which draws bits in a sequence's packets too, up to 196,608 UDP flows come about. (Before, drawing and
-- sequences excluded each other, and it stays at 12.)
--
--   FG_RATE     percent of the line rate   1
--   FG_SECONDS                             10

package.path = package.path .. ";?.lua;scripts/pktgen/?.lua"
local flowgate = require("flowgate")
local setting = flowgate.setting

-- The long ones apart from each other.
local ORDER = { 64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64 }

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
end

flowgate.begin()
sequence(flowgate.clients, "up")
sequence(flowgate.servers, "down")
flowgate.draw(1 << 14)
-- After the drawing, which older versions have as a mode of its own: the last mode wins.
pktgen.set("all", "seq_cnt", #ORDER)
pktgen.set("all", "rate", setting("rate", 1))
print(("IMIX 7:4:1 of 64, 594, 1518 bytes, %s %% of the line rate"):format(setting("rate", 1)))
local total = flowgate.run("all", setting("seconds", 10), flowgate.show)
flowgate.summary("IMIX", total)
