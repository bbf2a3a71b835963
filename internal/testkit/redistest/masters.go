package redistest

import "testing"

// StartMasters starts n servers that know nothing of each other, as a quorum lock wants them. Each
// is killed when the test ends.
func StartMasters(tb testing.TB, n int, opts ...Option) []*Server {
	tb.Helper()
	c := configure(tb, opts)
	masters := make([]*Server, n)
	for i := range masters {
		masters[i] = startServer(tb, c)
	}
	return masters
}
