package redistest

import (
	"strings"
	"testing"
)

// config is what the options of a starter add up to.
type config struct {
	bin   string
	args  []string
	clock bool
	debug bool
	certs *Certs
}

// Option changes how a starter starts its servers.
type Option func(*config)

// Args adds command line arguments after the usual ones; of one given twice the server takes the
// last.
func Args(args ...string) Option { return func(c *config) { c.args = append(c.args, args...) } }

// Exec starts this binary instead of the one [Binary] finds.
func Exec(path string) Option { return func(c *config) { c.bin = path } }

// Clock gives each server a clock of its own that [Server.MoveClock] moves. Without a C compiler,
// or on a system other than Linux, the test is skipped loudly, and fails if CI=true.
func Clock() Option { return func(c *config) { c.clock = true } }

// Debug allows the DEBUG command, which servers since 7.0 refuse by default.
func Debug() Option { return func(c *config) { c.debug = true } }

// TLS opens a second port, [Server.TLSAddr], on which the server speaks TLS and asks clients for a
// certificate of certs. The plain port stays, for administration.
func TLS(certs *Certs) Option { return func(c *config) { c.certs = certs } }

// configure turns options into a config that names a binary.
func configure(tb testing.TB, opts []Option) config {
	tb.Helper()
	var c config
	for _, o := range opts {
		o(&c)
	}
	if c.bin == "" {
		c.bin = binary(tb)
	}
	if c.debug && !strings.HasPrefix(inspect(c.bin).Version, "6.") { // 6.0 knows no such option and allows it anyway
		c.args = append(c.args, "--enable-debug-command", "local")
	}
	return c
}

// server makes a server that has not been started.
func (c config) server(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s := &Server{tb: tb, bin: c.bin, dir: tb.TempDir(), args: append(append([]string(nil), args...), c.args...),
		certs: c.certs}
	if c.clock {
		s.clock = newClock(tb, s.dir)
	}
	return s
}
