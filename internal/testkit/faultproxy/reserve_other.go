//go:build !unix

package faultproxy

// reserve reserves nothing: the suite does not run here.
func reserve() (addr string, release func(), err error) { return "127.0.0.1:0", func() {}, nil }
