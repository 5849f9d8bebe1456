/* A symbol for what DPDK defines inline, and the proof that the mbuf laid out in src/mbuf.rs is
 * this DPDK's. One call a burst is free; there is none a packet but for the freeing of a single one, and for what is rare. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_ip.h>
#include <rte_udp.h>

#include "wrapper.h"

#define AT(field, offset) \
	_Static_assert(offsetof(struct rte_mbuf, field) == (offset), "rte_mbuf." #field " is not where src/mbuf.rs has it")

AT(buf_addr, 0);
AT(data_off, 16);
AT(refcnt, 18);
AT(nb_segs, 20);
AT(port, 22);
AT(ol_flags, 24);
AT(packet_type, 32);
AT(pkt_len, 36);
AT(data_len, 40);
AT(vlan_tci, 42);
AT(hash.rss, 44);
AT(vlan_tci_outer, 52);
AT(buf_len, 54);
AT(pool, 56);
_Static_assert(sizeof(struct rte_mbuf) == 128, "rte_mbuf is not two cache lines");
_Static_assert(sizeof(((struct rte_mbuf *)0)->pkt_len) == 4, "rte_mbuf.pkt_len is not 32 bits");
_Static_assert(sizeof(((struct rte_mbuf *)0)->data_len) == 2, "rte_mbuf.data_len is not 16 bits");
_Static_assert(sizeof(((struct rte_mbuf *)0)->nb_segs) == 2, "rte_mbuf.nb_segs is not 16 bits");

int shim_errno(void)
{
	return rte_errno;
}

uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count)
{
	return rte_eth_rx_burst(port, queue, packets, count);
}

uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, packets, count);
}

int shim_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **packets, unsigned int count)
{
	return rte_pktmbuf_alloc_bulk(pool, packets, count);
}

void shim_pktmbuf_free(struct rte_mbuf *packet)
{
	rte_pktmbuf_free(packet);
}

void shim_pktmbuf_truncate(struct rte_mbuf *packet, uint32_t len)
{
	struct rte_mbuf *last = packet;
	uint32_t left = len;
	uint16_t segments = 1;

	if (len >= packet->pkt_len)
		return;
	while (left > last->data_len) {
		left -= last->data_len;
		last = last->next;
		segments++;
	}
	rte_pktmbuf_free(last->next);
	last->next = NULL;
	last->data_len = (uint16_t)left;
	packet->nb_segs = segments;
	packet->pkt_len = len;
}

int shim_offload_udp_checksum(struct rte_mbuf *packet, uint16_t l2_len, uint16_t l3_len)
{
	const struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(packet, const struct rte_ipv4_hdr *, l2_len);
	struct rte_udp_hdr *udp = rte_pktmbuf_mtod_offset(packet, struct rte_udp_hdr *, l2_len + l3_len);

	if (packet->data_len < l2_len + l3_len + sizeof(*udp))
		return -1;
	packet->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM;
	packet->l2_len = l2_len;
	packet->l3_len = l3_len;
	/* The device adds the datagram to what is there: the pseudo header. */
	udp->dgram_cksum = rte_ipv4_phdr_cksum(ip, packet->ol_flags);
	return 0;
}

int shim_pktmbuf_gather(struct rte_mbuf *packet)
{
	struct rte_mbuf *segment, *next;
	uint8_t *end;

	if (packet->pkt_len + RTE_PKTMBUF_HEADROOM > packet->buf_len)
		return -1;
	if (packet->data_off != RTE_PKTMBUF_HEADROOM) {
		memmove((uint8_t *)packet->buf_addr + RTE_PKTMBUF_HEADROOM,
			rte_pktmbuf_mtod(packet, const uint8_t *), packet->data_len);
		packet->data_off = RTE_PKTMBUF_HEADROOM;
	}
	end = rte_pktmbuf_mtod_offset(packet, uint8_t *, packet->data_len);
	for (segment = packet->next; segment != NULL; segment = next) {
		memcpy(end, rte_pktmbuf_mtod(segment, const uint8_t *), segment->data_len);
		end += segment->data_len;
		next = segment->next;
		rte_pktmbuf_free_seg(segment);
	}
	packet->next = NULL;
	packet->nb_segs = 1;
	packet->data_len = (uint16_t)packet->pkt_len;
	return 0;
}

uint64_t shim_page_size(const void *address)
{
	const struct rte_memseg_list *list = rte_mem_virt2memseg_list(address);

	return list == NULL ? 0 : list->page_sz;
}

int shim_link_get_nowait(uint16_t port, struct shim_link *link)
{
	struct rte_eth_link seen = {0};
	int result = rte_eth_link_get_nowait(port, &seen);

	link->up = seen.link_status == RTE_ETH_LINK_UP;
	link->full_duplex = seen.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	link->speed_mbps = seen.link_speed;
	return result;
}

/* On a CPU that does not tell the rate of its counter rte_eal_init() sleeps for a tenth of a second, divides what was counted by
 * the time that has really passed, and rounds to 10 MHz. A tenth of that tells the same, within a few of these 10 MHz at worst, if
 * the thread loses its core between two readings. Only real hardware is waited for by that rate, so that this is
 * for starts without any. */
static const long MEASURES_NS = 100 * 1000 * 1000;
static const long ENOUGH_NS = 10 * 1000 * 1000;

static __thread bool measures_short;

void shim_measure_short(bool yes)
{
	measures_short = yes;
}

/* The C library's, which this one is in front of for the whole process, but for that one sleep. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	struct timespec shorter = { .tv_nsec = ENOUGH_NS };
	int error;

	if (measures_short && wanted->tv_sec == 0 && wanted->tv_nsec == MEASURES_NS)
		wanted = &shorter;
	error = clock_nanosleep(CLOCK_REALTIME, 0, wanted, left);
	if (error == 0)
		return 0;
	errno = error;
	return -1;
}

bool shim_sleeps_are_ours(void)
{
	return dlsym(RTLD_DEFAULT, "nanosleep") == (void *)nanosleep;
}

/* net_memif takes a peer's rings out of the process when the peer goes, on the thread that DPDK has for interrupts. Right before, it
 * clears the flag by which a burst finds that there is nothing to poll; but a burst that has begun by then is still in the rings,
 * and would fault. DPDK does not wait for it (looked at in 22.11 to June 2026), so that thread does so here. */
static __thread void (*waits_before_unmapping)(void);

void shim_wait_before_unmapping(void (*wait)(void))
{
	waits_before_unmapping = wait;
}

/* The C library's, which this one is in front of for the whole process. */
int munmap(void *address, size_t length)
{
	if (waits_before_unmapping != NULL)
		waits_before_unmapping();
	return (int)syscall(SYS_munmap, address, length);
}

bool shim_unmapping_is_ours(void)
{
	return dlsym(RTLD_DEFAULT, "munmap") == (void *)munmap;
}
