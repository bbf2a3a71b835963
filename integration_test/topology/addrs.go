package topology

// Addrs are the addresses that a client is given to find its way by, which need not be go-redis:
// those of the Sentinels, who call the primary [redistest.SentinelMaster], or of the servers.
func Addrs(top Topology) []string {
	if s, ok := top.(*sentinel); ok {
		return s.s.Addrs()
	}
	var addrs []string
	for _, n := range top.Nodes() {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}
