/* What the bindings are made from: DPDK's headers, the functions of shim.c, and those of DPDK's
 * macros that bindgen cannot evaluate (casts, RTE_BIT64) as constants. */

#ifndef FLOWGATE_DPDK_WRAPPER_H
#define FLOWGATE_DPDK_WRAPPER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rte_alarm.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_hash.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

/* What a receive hash may be computed over: addresses, and ports where there are any. */
static const uint64_t SHIM_RSS_IP = RTE_ETH_RSS_IP;
static const uint64_t SHIM_RSS_TCP = RTE_ETH_RSS_TCP;
static const uint64_t SHIM_RSS_UDP = RTE_ETH_RSS_UDP;
static const uint64_t SHIM_RX_OFFLOAD_RSS_HASH = RTE_ETH_RX_OFFLOAD_RSS_HASH;
static const uint64_t SHIM_TX_OFFLOAD_UDP_CKSUM = RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
static const uint64_t SHIM_MBUF_RX_RSS_HASH = RTE_MBUF_F_RX_RSS_HASH;
static const uint32_t SHIM_RING_ONE_TO_ONE = RING_F_SP_ENQ | RING_F_SC_DEQ;
static const uint32_t SHIM_SPEED_UNKNOWN = RTE_ETH_SPEED_NUM_UNKNOWN;
static const uint32_t SHIM_PKTMBUF_HEADROOM = RTE_PKTMBUF_HEADROOM;
static const uint32_t SHIM_MEMPOOL_CACHE_MAX_SIZE = RTE_MEMPOOL_CACHE_MAX_SIZE;
static const uint32_t SHIM_RETA_GROUP_SIZE = RTE_ETH_RETA_GROUP_SIZE;
static const uint32_t SHIM_MAX_PORTS = RTE_MAX_ETHPORTS;
static const uint32_t SHIM_PORT_NAME_LEN = RTE_ETH_NAME_MAX_LEN;

/* A link's state, whatever rte_eth_link looks like in this version. */
struct shim_link {
	uint32_t speed_mbps;
	bool up;
	bool full_duplex;
};

int shim_errno(void);

uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count);
uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count);

int shim_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **packets, unsigned int count);
void shim_pktmbuf_free(struct rte_mbuf *packet);

/* Cuts a chained packet to its first `len` bytes and frees the segments behind them. */
void shim_pktmbuf_truncate(struct rte_mbuf *packet, uint32_t len);

/* Bytes of a page of the DPDK memory that `address` is in; 0 if it is in none. */
uint64_t shim_page_size(const void *address);

/* Has the device compute the checksum of a packet's UDP datagram, whose IPv4 header begins at `l2_len` and is
 * `l3_len` long, both in its first segment. -1 if they are not there. */
int shim_offload_udp_checksum(struct rte_mbuf *packet, uint16_t l2_len, uint16_t l3_len);

/* Gathers a chained packet in its first segment, behind a full headroom. -1, and nothing changed, if it does
 * not fit there. */
int shim_pktmbuf_gather(struct rte_mbuf *packet);

int shim_link_get_nowait(uint16_t port, struct shim_link *link);

/* Whether rte_eal_init() on the calling thread is to measure the rate of the CPU's counter within 10 ms instead of 100. */
void shim_measure_short(bool yes);

/* Whether DPDK's sleeps come by shim.c, without which there is no such choice. */
bool shim_sleeps_are_ours(void);

/* Has the calling thread call `wait` before each munmap() of its own; NULL: nothing any more. */
void shim_wait_before_unmapping(void (*wait)(void));

/* Whether munmap() comes by shim.c, for DPDK's drivers too. */
bool shim_unmapping_is_ours(void);

#endif
