package redistest

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed" // the shim's source
	bits "encoding/binary"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

// Args adds command line arguments after the usual ones; of one given twice the server takes the last.
func Args(args ...string) Option { return func(c *config) { c.args = append(c.args, args...) } }

// Exec starts this binary instead of the one [Binary] finds.
func Exec(path string) Option { return func(c *config) { c.bin = path } }

// Clock gives each server a clock that [Server.MoveClock] moves. Without Linux and a C compiler it skips, or fails if CI=true.
func Clock() Option { return func(c *config) { c.clock = true } }

// Debug allows the DEBUG command, which servers since 7.0 refuse by default.
func Debug() Option { return func(c *config) { c.debug = true } }

// TLS opens a port, [Server.TLSAddr], for clients with a certificate of certs. The plain port stays, for administration.
func TLS(certs *Certs) Option { return func(c *config) { c.certs = certs } }

// configure turns options into a config that names a binary.
func configure(tb testing.TB, opts []Option) config {
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
	s := &Server{tb: tb, bin: c.bin, dir: tb.TempDir(), args: append(append([]string(nil), args...), c.args...),
		certs: c.certs}
	if c.clock {
		s.clock = newClock(tb, s.dir)
	}
	return s
}

// BinaryEnv names the environment variable that chooses the server to test against.
const BinaryEnv = "HOLDFAST_REDIS_SERVER"

// Binary is the server to start: HOLDFAST_REDIS_SERVER if set (a path, or a name on the PATH), else redis-server, else
// valkey-server. ok is false if there is none, or if the variable names a missing file: no other is tested in silence.
func Binary() (path string, ok bool) {
	if want := os.Getenv(BinaryEnv); want != "" {
		path, err := exec.LookPath(want)
		return path, err == nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// missing says why Binary found nothing and what to do.
func missing() string {
	if want := os.Getenv(BinaryEnv); want != "" {
		return BinaryEnv + "=" + want + " is not an executable"
	}
	return "no redis-server or valkey-server on the PATH; install one (Debian: apt-get install redis-server) or set " +
		BinaryEnv
}

// binary is Binary for a test that cannot go on without.
func binary(tb testing.TB) string {
	path, ok := Binary()
	if !ok {
		Unavailable(tb, missing())
	}
	return path
}

// Unavailable skips a test that lacks something of the machine, loudly, and fails it if CI=true.
func Unavailable(tb testing.TB, why string) {
	tb.Helper()
	why = "REAL SERVER TEST NOT RUN: " + strings.TrimSpace(why)
	if os.Getenv("CI") == "true" {
		tb.Fatal(why)
		return
	}
	tb.Skip(why)
}

// ServersEnv names the environment variable with a directory of servers of many versions: its bin/*-server.
const ServersEnv = "HOLDFAST_SERVERS"

// Program is a server program that tests can start, see [Exec].
type Program struct {
	Path    string
	Name    string // such as "redis-7.0.15" or "valkey-9.1.2", for the names of subtests
	Version string // as the program says, such as "7.0.15"
	Valkey  bool
}

// Programs are all servers to test with: those in the directory HOLDFAST_SERVERS, and [Binary]'s if its version is new. Redis
// is first, old before new, each version once. A directory without servers is an error: no fewer tests in silence.
func Programs(tb testing.TB) []Program {
	tb.Helper()
	var paths []string
	if dir := os.Getenv(ServersEnv); dir != "" {
		found, err := filepath.Glob(filepath.Join(dir, "bin", "*-server"))
		if err != nil || len(found) == 0 {
			tb.Fatalf("%s=%s: no bin/*-server in it (%v)", ServersEnv, dir, err)
		}
		paths = found
	}
	if path, ok := Binary(); ok || len(paths) == 0 {
		if !ok {
			Unavailable(tb, missing())
		}
		paths = append(paths, path)
	}
	var all []Program
	for _, path := range paths {
		p := inspect(path)
		if p.Version == "" {
			tb.Fatalf("%s --version does not name a version", path)
		}
		if !slices.ContainsFunc(all, func(q Program) bool { return p.Name == q.Name }) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Program) int {
		if a.Valkey != b.Valkey {
			return strings.Compare(a.Name, b.Name)
		}
		return compareVersions(a.Version, b.Version)
	})
	return all
}

// EachProgram runs a test for each of [Programs].
func EachProgram(t *testing.T, test func(t *testing.T, p Program)) {
	for _, p := range Programs(t) {
		t.Run(p.Name, func(t *testing.T) { test(t, p) })
	}
}

// inspect asks a program for its version, for command lines that depend on it; all else asks servers. "": it does not say.
func inspect(path string) Program {
	out, _ := exec.Command(path, "--version").Output() // then it does not say
	_, version, _ := strings.Cut(string(out), "v=")
	version, _, _ = strings.Cut(version, " ")
	name, valkey := "redis-", strings.HasPrefix(string(out), "Valkey")
	if valkey {
		name = "valkey-"
	}
	return Program{Path: path, Name: name + version, Version: version, Valkey: valkey}
}

// compareVersions compares dotted numbers number by number: 8.10 is after 8.6.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, _ := strconv.Atoi(as[i]) // what is no number counts as 0
		y, _ := strconv.Atoi(bs[i])
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(as), len(bs))
}

// Certs are an authority made for one test, a certificate for its servers and one for its clients.
type Certs struct {
	roots  *x509.CertPool
	client tls.Certificate
	dir    string // ca.pem, and server and client as .pem and .key
}

// NewCerts makes an authority and its certificates, valid for 127.0.0.1 and for an hour from now.
func NewCerts(tb testing.TB) *Certs {
	c := &Certs{roots: x509.NewCertPool(), dir: tb.TempDir()}
	fail := func(err error) { require.NoError(tb, err, "certificates") }
	authority, caKey, err := issue("authority", nil, nil)
	fail(err)
	server, serverKey, err := issue("server", authority, caKey)
	fail(err)
	client, clientKey, err := issue("client", authority, caKey)
	fail(err)
	c.roots.AddCert(authority)
	c.client = tls.Certificate{Certificate: [][]byte{client.Raw}, PrivateKey: clientKey}
	der, err := x509.MarshalECPrivateKey(serverKey)
	fail(err)
	clientDER, err := x509.MarshalECPrivateKey(clientKey)
	fail(err)
	for name, block := range map[string]*pem.Block{
		"ca.pem":     {Type: "CERTIFICATE", Bytes: authority.Raw},
		"server.pem": {Type: "CERTIFICATE", Bytes: server.Raw},
		"server.key": {Type: "EC PRIVATE KEY", Bytes: der},
		"client.pem": {Type: "CERTIFICATE", Bytes: client.Raw},
		"client.key": {Type: "EC PRIVATE KEY", Bytes: clientDER},
	} {
		fail(os.WriteFile(filepath.Join(c.dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return c
}

// issue makes a key and a certificate for it, signed by the authority, or by itself if there is none.
func issue(name string, authority *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey,
	error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "holdfast test " + name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		BasicConstraintsValid: true,
	}
	if authority == nil {
		t.IsCA, t.KeyUsage = true, x509.KeyUsageCertSign
		authority, key = t, own
	}
	der, err := x509.CreateCertificate(rand.Reader, t, authority, own.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, own, err
}

// Client is a new copy of a client's side, free to change: it trusts the authority and shows the client's certificate.
func (c *Certs) Client() *tls.Config {
	return &tls.Config{
		RootCAs: c.roots, Certificates: []tls.Certificate{c.client}, ServerName: "127.0.0.1",
		MinVersion: tls.VersionTLS12,
	}
}

// Files are what [Certs.Client] has, as files in PEM: the authority, the client's certificate, its key.
func (c *Certs) Files() (authority, certificate, key string) {
	return filepath.Join(c.dir, "ca.pem"), filepath.Join(c.dir, "client.pem"), filepath.Join(c.dir, "client.key")
}

// args make a server speak TLS on the port.
func (c *Certs) args(port int) []string {
	return []string{
		"--tls-port", strconv.Itoa(port), "--tls-auth-clients", "yes", "--tls-ca-cert-file",
		filepath.Join(c.dir, "ca.pem"),
		"--tls-cert-file", filepath.Join(c.dir, "server.pem"), "--tls-key-file", filepath.Join(c.dir, "server.key"),
	}
}

// TLSAddr is the address on which a server started with [TLS] speaks it.
func (s *Server) TLSAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.tlsPort)) }

//go:embed shim/offclock.c
var offclockSource []byte

// offclock is the compiled shim, made once per test binary: in memory and beside servers, so no file needs a clean-up.
var offclock = sync.OnceValues(func() ([]byte, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("a server's clock can be moved on Linux only")
	}
	dir, err := os.MkdirTemp("", "offclock-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	source, lib := filepath.Join(dir, "offclock.c"), filepath.Join(dir, "offclock.so")
	if err := os.WriteFile(source, offclockSource, 0o600); err != nil {
		return nil, err
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if out, err := exec.Command(compiler, "-O2", "-shared", "-fPIC", "-o", lib, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("moving a server's clock needs a C compiler: %w\n%s", err, out)
	}
	return os.ReadFile(lib)
})

// clock is what moves the wall clock of one server.
type clock struct {
	lib, file string

	mu     sync.Mutex
	offset time.Duration
}

func newClock(tb testing.TB, dir string) *clock {
	lib, err := offclock()
	if err != nil {
		Unavailable(tb, err.Error())
	}
	c := &clock{lib: filepath.Join(dir, "offclock.so"), file: filepath.Join(dir, "offset")}
	require.NoError(tb, os.WriteFile(c.lib, lib, 0o600))
	require.NoError(tb, os.WriteFile(c.file, make([]byte, 8), 0o600))
	return c
}

// env makes a server read the clock.
func (c *clock) env() []string { return []string{"LD_PRELOAD=" + c.lib, "OFFCLOCK_FILE=" + c.file} }

// set writes the offset in place: the server has the file mapped, so it must not be replaced or truncated.
func (c *clock) set(offset time.Duration) error {
	f, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(bits.NativeEndian.AppendUint64(nil, uint64(offset)), 0) //nolint:gosec // two's complement is meant
	return err
}

// MoveClock moves the server's wall clock by d from where it is, forwards or backwards, and returns when its TIME shows it. The
// server must have been started with [Clock], and must answer. The time between two moves passes as usual.
func (s *Server) MoveClock(tb testing.TB, d time.Duration) {
	tb.Helper()
	if s.clock == nil {
		tb.Fatal("redistest: MoveClock of a server that was started without Clock")
	}
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	offset := s.clock.offset + d
	require.NoError(tb, s.clock.set(offset), "clock")
	s.clock.offset = offset
	slack := min(d.Abs()/4, 20*time.Millisecond) // some versions read the clock once a millisecond or so
	var last string
	if !Within(patience, func() bool {
		before := time.Now()
		now, err := s.time()
		after := time.Now()
		last = fmt.Sprint(now, err)
		now = now.Add(-offset)
		return err == nil && now.After(before.Add(-slack)) && now.Before(after.Add(slack))
	}) {
		tb.Fatalf("clock: the server does not show the new time, but %s", last)
	}
}

// time asks the server for its time.
func (s *Server) time() (time.Time, error) {
	reply, err := s.Try("TIME")
	pair, ok := reply.([]any)
	if err != nil || !ok || len(pair) != 2 {
		return time.Time{}, fmt.Errorf("TIME: %v, %w", reply, err)
	}
	sec, err := strconv.ParseInt(pair[0].(string), 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	usec, err := strconv.ParseInt(pair[1].(string), 10, 64)
	return time.Unix(sec, usec*1000), err
}
