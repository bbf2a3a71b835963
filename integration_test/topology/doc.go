// Package topology gives a test every way in which Redis is run: a single server, a primary with
// replicas, one under Sentinels, a cluster; in every version that can be had, as processes, and single servers as
// containers too.
//
// A test names what it needs and runs once for each:
//
//	topology.Each(t, topology.Single|topology.Cluster, func(t *testing.T, top topology.Topology) {
//		rdb := top.Connect(t)
//		...
//	})
//
// A topology is started once for each call of the function, so subtests inside it share it. What
// only some can do is an interface of its own ([Failover], [Killer], [Loser], [Resharder]): a type
// assertion asks for it.
//
// HOLDFAST_SERVERS=dir tests the programs in dir/bin/*-server, HOLDFAST_DOCKER=1 images in
// containers. Where one of them is set, a version of the list in [Wanted] that cannot be had is a
// loud skip, and a failure if CI=true. Where neither is, only the local server is tested, and the
// log says so.
//
// Not here: faults of the network between client and server. Put a faultproxy between them with the
// change of options that [Topology.Connect] takes.
package topology
