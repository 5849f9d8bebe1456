/* A symbol for what DPDK defines inline, and the proof that the mbuf laid out in src/mbuf.rs is
 * this DPDK's. One call a burst is free; there is none a packet but for the freeing of a single one. */

#include <stddef.h>

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
