-- What the scripts here share: settings, counters, and flows whose addresses do not follow their ports.
--
-- Written for Pktgen-DPDK 22.07 and later; `portStats` changed its arguments and its table on the way, and
-- `counters` takes either. Pktgen reads its ports' counters once a second: nothing here is finer than that.

local flowgate = {}

-- A setting: the environment variable FG_<NAME>, or the default.
function flowgate.setting(name, default)
    local text = os.getenv("FG_" .. name:upper())
    if text == nil then
        return default
    end
    if type(default) ~= "number" then
        return text
    end
    local number = tonumber(text)
    if number == nil then
        error(("FG_%s is '%s', expected a number"):format(name:upper(), text))
    end
    return number
end

-- The two ports: the clients' end of the wire and the servers'.
flowgate.clients = tostring(flowgate.setting("clients", 0))
flowgate.servers = tostring(flowgate.setting("servers", 1))

-- The stations at the two ends. A wire leaves them as they are.
local MACS = { clients = "02:00:00:00:0c:01", servers = "02:00:00:00:05:01" }

-- Clients are in 10.0.0.0/10, servers in 198.18.0.0/15, the network set aside for benchmarks (RFC 2544).
local FIRST_CLIENT, FIRST_SERVER = 0x0a000001, 0xc6120001
local FIRST_PORT, SERVER_PORT = 10000, 443

function flowgate.address(number)
    return ("%d.%d.%d.%d"):format(number >> 24 & 255, number >> 16 & 255, number >> 8 & 255, number & 255)
end

local function mirrored(text)
    return (text:gsub("[sd][rs][ct]", { src = "dst", dst = "src" }))
end

-- The same call for both ports; what is the source at the clients' end is the destination at the servers'.
local function both(name, what, value)
    pktgen.range[name](flowgate.clients, what, value)
    pktgen.range[mirrored(name)](flowgate.servers, what, value)
end

-- Numbers `first`, `first + step`, … of which there are `count`.
local function range(name, first, step, count, write)
    both(name, "start", write(first))
    both(name, "min", write(first))
    both(name, "max", write(first + step * (count - 1)))
    both(name, "inc", write(step))
end

-- Sets both ports to send at least `count` flows, the same ones in both directions; returns how many.
--
-- Pktgen advances all ranges at each packet. So that every address meets every port, their numbers have no common
-- divisor; and so that an address and a port that advance together do not cancel out in a symmetric RSS hash (which
-- would put all flows on one queue), the ports advance by 3.
function flowgate.flows(count, proto)
    local addresses = math.max(1, math.ceil(math.sqrt(count)))
    local ports = addresses + 1
    if FIRST_PORT + 3 * ports > 65535 then
        ports = (65535 - FIRST_PORT) // 3
        addresses = math.ceil(count / ports)
        while flowgate.divisor(addresses, ports) > 1 do
            addresses = addresses + 1
        end
    end
    both("src_mac", "start", MACS.clients)
    both("dst_mac", "start", MACS.servers)
    range("src_ip", FIRST_CLIENT, 1, addresses, flowgate.address)
    range("src_port", FIRST_PORT, 3, ports, math.tointeger)
    range("dst_ip", FIRST_SERVER, 0, 1, flowgate.address)
    range("dst_port", SERVER_PORT, 0, 1, math.tointeger)
    for _, port in ipairs({ flowgate.clients, flowgate.servers }) do
        pktgen.set_proto(port, proto)
        pktgen.range.ip_proto(port, proto)
        pktgen.set_range(port, "on")
    end
    return addresses * ports
end

-- Flows that a range can have: Pktgen writes its buffers once, before it sends, and has 24,576 of them a queue.
flowgate.most_in_range = 24000

-- Bits of a client's port and of its address that can be drawn; an IPv4 UDP packet has its addresses at 26 and its
-- ports at 34.
local PORT_BITS, ADDRESS_BITS = 14, 22
local SOURCE_AT, DESTINATION_AT, PORTS_AT = 26, 30, 34

-- A mask of 32 bits for Pktgen's `rnd`: `count` bits are drawn that end `behind` bits before the last.
local function mask(count, behind)
    return ("."):rep(32 - count - behind) .. ("X"):rep(count) .. ("."):rep(behind)
end

-- Draws the client's port, and its address if that is not enough, for each packet anew, so that at least `count` flows
-- come about in time. Returns how many there can be.
--
-- Pktgen does not put the IPv4 header's checksum right when it has drawn an address. A wire gateway passes such a packet,
-- as it passes whatever its ends will judge; a router does not.
function flowgate.draw(count)
    local bits = math.ceil(math.log(count, 2))
    local port_bits = math.min(bits, PORT_BITS)
    local address_bits = math.min(bits - port_bits, ADDRESS_BITS)
    pktgen.rnd(flowgate.clients, 0, PORTS_AT, mask(port_bits, 16))
    pktgen.rnd(flowgate.servers, 0, PORTS_AT, mask(port_bits, 0))
    if address_bits > 0 then
        pktgen.rnd(flowgate.clients, 1, SOURCE_AT, mask(address_bits, 0))
        pktgen.rnd(flowgate.servers, 1, DESTINATION_AT, mask(address_bits, 0))
    end
    return 1 << (port_bits + address_bits)
end

-- Sets both ports to send one packet over and over, with a client that is drawn anew each time.
function flowgate.drawn_flows(count)
    local client, server = flowgate.address(FIRST_CLIENT - 1), flowgate.address(FIRST_SERVER)
    local ends = {
        [flowgate.clients] = { "clients", "servers", client, server, 32768, SERVER_PORT },
        [flowgate.servers] = { "servers", "clients", server, client, SERVER_PORT, 32768 },
    }
    for port, packet in pairs(ends) do
        pktgen.set_mac(port, "src", MACS[packet[1]])
        pktgen.set_mac(port, "dst", MACS[packet[2]])
        pktgen.set_ipaddr(port, "src", packet[3] .. "/10")
        pktgen.set_ipaddr(port, "dst", packet[4])
        pktgen.set(port, "sport", packet[5])
        pktgen.set(port, "dport", packet[6])
        pktgen.set_type(port, "ipv4")
        pktgen.set_proto(port, "udp")
    end
    return flowgate.draw(count)
end

-- The greatest common divisor.
function flowgate.divisor(a, b)
    while b > 0 do
        a, b = b, a % b
    end
    return a
end

function flowgate.size(bytes)
    for _, port in ipairs({ flowgate.clients, flowgate.servers }) do
        pktgen.set(port, "size", bytes)
        pktgen.range.pkt_size(port, "start", bytes)
        pktgen.range.pkt_size(port, "inc", 0)
        pktgen.range.pkt_size(port, "min", bytes)
        pktgen.range.pkt_size(port, "max", bytes)
    end
end

-- What a port has sent and received so far.
function flowgate.counters(port)
    local ok, all = pcall(pktgen.portStats, port, "port")
    if not ok then
        all = pktgen.portStats(port)
    end
    local one = all[tonumber(port)]
    one = one.curr or one
    return { sent = one.opackets, received = one.ipackets, missed = one.imissed + one.rx_nombuf }
end

-- Both ways: what was sent at one end and received at the other. `up` is from the clients.
function flowgate.totals()
    local clients, servers = flowgate.counters(flowgate.clients), flowgate.counters(flowgate.servers)
    return {
        up = { sent = clients.sent, received = servers.received, missed = servers.missed },
        down = { sent = servers.sent, received = clients.received, missed = clients.missed },
    }
end

-- What came to `now` since `before`.
function flowgate.since(before, now)
    local passed = {}
    for way, counts in pairs(now) do
        passed[way] = {}
        for name, count in pairs(counts) do
            passed[way][name] = count - before[way][name]
        end
    end
    return passed
end

-- Lets Pktgen's counters settle: they are read once a second.
function flowgate.settle()
    pktgen.delay(2200)
end

-- Sends for so many seconds, `sampled` is called after each with its number and what it brought; returns what all
-- of them brought, with what arrived late. Before they begin it sends for two seconds that do not count: Pktgen writes
-- its buffers when it starts, and then makes up for the time that it took in one burst.
function flowgate.run(ports, seconds, sampled)
    pktgen.start(ports)
    flowgate.settle()
    local first = flowgate.totals()
    local last = first
    for second = 1, seconds do
        pktgen.delay(1000)
        local now = flowgate.totals()
        sampled(second, flowgate.since(last, now))
        last = now
    end
    pktgen.stop(ports)
    flowgate.settle()
    return flowgate.since(first, flowgate.totals())
end

local function share(part, whole)
    return whole > 0 and 100 * part / whole or 0
end

-- A line a second.
function flowgate.show(second, passed)
    print(("%5d s   up %11d sent %11d received   down %11d sent %11d received"):format(
        second, passed.up.sent, passed.up.received, passed.down.sent, passed.down.received))
end

-- The last word. Returns the share that was lost, in percent.
function flowgate.summary(title, total)
    print(title)
    local sent, lost = 0, 0
    for _, way in ipairs({ "up", "down" }) do
        local counts = total[way]
        -- What was on its way when the count began may make a few more than were sent.
        local missing = math.max(0, counts.sent - counts.received)
        sent, lost = sent + counts.sent, lost + missing
        print(("  %-4s %12d sent, %12d received, %10d lost (%.4f %%), of these %d by Pktgen itself"):format(
            way, counts.sent, counts.received, missing, share(missing, counts.sent), counts.missed))
    end
    return share(lost, sent)
end

-- Common beginning: nothing is left of what was set before, and nothing is drawn over our lines.
function flowgate.begin()
    pktgen.screen("off")
    pktgen.stop("all")
    pktgen.reset("all")
    pktgen.clr()
end

return flowgate
