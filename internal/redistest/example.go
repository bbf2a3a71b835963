package redistest

// ForExample returns the address of the shared server for an Example, which has no testing.TB to report to: it panics if
// there is no server.
func ForExample() (addr string) {
	bin, ok := Binary()
	if !ok {
		panic("redistest: " + missing())
	}
	shared.Lock()
	defer shared.Unlock()
	if !shared.tried {
		shared.tried = true
		shared.server, shared.err = startShared(bin)
	}
	if shared.err != nil {
		panic(shared.err)
	}
	return shared.server.Addr()
}
