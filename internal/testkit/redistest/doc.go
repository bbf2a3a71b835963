// Package redistest starts real Redis and Valkey servers for tests: one by itself ([Start]), one
// shared by the tests of a package ([Shared]), several that know nothing of each other
// ([StartMasters]), a primary with replicas ([StartReplicated]), one under Sentinels
// ([StartSentinel]) and a cluster ([StartCluster]). Options choose the program (see [Programs] for
// all there are), a clock that can be moved, TLS.
//
// A plain process is up in about 10 ms and needs no container engine, so there is no emulation of
// Redis in this module's tests: scripts, time to live, pub/sub and failover are the server's own.
//
// The binary is HOLDFAST_REDIS_SERVER, else redis-server, else valkey-server (see [Binary]).
// Without one, tests are skipped loudly; where CI=true they fail instead, because a suite that
// skips everything looks green.
//
// Not promised: that data survives [Server.Restart] (nothing is persisted), and that servers die
// with the test binary on systems other than Linux, where only the cleanups stop them. Methods that
// take no testing.TB report failures to the test that started the server and so must be called from
// its goroutine.
package redistest
