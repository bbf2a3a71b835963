package redistest

// ForExample returns the address of the shared server for an Example, which has no testing.TB to
// report to: it panics if there is no server.
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

// ForExamples is ForExample for n servers that know nothing of each other, started at each call.
// [Main] stops them.
func ForExamples(n int) (addrs []string) {
	bin, ok := Binary()
	if !ok {
		panic("redistest: " + missing())
	}
	shared.Lock()
	defer shared.Unlock()
	for range n {
		s, err := startShared(bin)
		if err != nil {
			panic(err)
		}
		shared.more = append(shared.more, s)
		addrs = append(addrs, s.Addr())
	}
	return addrs
}
