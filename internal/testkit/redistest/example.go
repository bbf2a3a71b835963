package redistest

// must is a server that an Example has, or a panic: it has no testing.TB to report to.
func must(start func(bin string) (*Server, error)) *Server {
	bin, ok := Binary()
	if !ok {
		panic("redistest: " + missing())
	}
	s, err := start(bin)
	if err != nil {
		panic(err)
	}
	return s
}

// ForExample returns the address of the shared server for an Example. It panics if there is no server.
func ForExample() (addr string) { return must(theShared).Addr() }

// ForExamples is ForExample for n servers that know nothing of each other, started at each call.
// [Main] stops them.
func ForExamples(n int) (addrs []string) {
	shared.Lock()
	defer shared.Unlock()
	for range n {
		s := must(startShared)
		shared.more = append(shared.more, s)
		addrs = append(addrs, s.Addr())
	}
	return addrs
}
