package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// shownAs are addresses with "sesame" in all their secrets, what is shown of each, and which part a refusal names.
var shownAs = map[string]struct{ shown, refused string }{
	"redis://h:7000/3?read_timeout=1s&max_retries=-1":                     {shown: "redis://h:7000/3?read_timeout=1s&max_retries=-1"},
	"rediss+cluster://a_b.c-d,10.0.0.1:7,[::1]:8?addr=h:1&read_only=true": {shown: "rediss+cluster://a_b.c-d,10.0.0.1:7,[::1]:8?addr=h:1&read_only=true"},
	"redis://[fe80::1%25eth0]:7":                                          {shown: "redis://[fe80::1%25eth0]:7"},
	"rediss://h?skip_verify=true&dial_timeout=3&client_name=sesame&db=":   {shown: "rediss://h?skip_verify=true&dial_timeout=3&client_name=***&db="},
	"redis://sesame1:sesame2@h:1/2":                                       {shown: "redis://***@h:1/2"},
	"unix://sesame:sesame@/run/redis-1_a.sock?db=2":                       {shown: "unix://***@/run/redis-1_a.sock?db=2"},
	"redis+sentinel://h1,h2:7/m?username=sesame1&password=sesame2&db=1":   {shown: "redis+sentinel://h1,h2:7/m?username=***&password=***&db=1"},
	"redis+sentinel://:sesame@h/my-master_1.a/2?password=se%40sesame":     {shown: "redis+sentinel://***@h/my-master_1.a/2?password=***"},
	"h:1":      {shown: "h:1"},
	"sesame@h": {shown: "***@h"},
	// What is none of these is a part of a password, for all that is known.
	"redis+sentinel://h/m?password=se@sesame":         {"redis+sentinel://***", "user or password"},
	"redis://:%zzsesame@h":                            {"redis://***", "user or password"},
	"redis://:sesame/sesame@h":                        {"redis://***", "user or password"},
	"redis://:sesame?sesame@h":                        {"redis://***", "user or password"},
	"redis://u:12 sesame@h":                           {"redis://***", "user or password"},
	"redis://:sesame":                                 {"redis://***", "host"},
	"redis://user:sesame":                             {"redis://***", "host"},
	"redis://user:sesame:6379":                        {"redis://***", "host"},
	"redis://[::1]:sesame/0":                          {"redis://***", "host"},
	"h:sesame":                                        {"***", "host"},
	"redis://127.0.0.1&password=sesame":               {"redis://***", "host"},
	"redis://localhost;password=sesame":               {"redis://***", "host"},
	"redis://u:12,sesame%40127.0.0.1":                 {"redis://***", "host"},
	"redis://[u:sesame]h:1":                           {"redis://***", "host"},
	"redis://[::1]sesame:1":                           {"redis://***", "host"},
	"redis://[sesame]:1":                              {"redis://***", "host"},
	"redis://h#sesame":                                {"redis://***", "host"},
	"redis://h/0#sesame":                              {"redis://***", "path"},
	"redis://h/sesame":                                {"redis://***", "path"},
	"redis://h:1/0&password=sesame":                   {"redis://***", "path"},
	"redis://h:1/0;password=sesame":                   {"redis://***", "path"},
	"redis+cluster://h/sesame":                        {"redis+cluster://***", "path"},
	"redis+sentinel://h:1/mymaster&password=sesame":   {"redis+sentinel://***", "path"},
	"redis+sentinel://h:1/mymaster/sesame":            {"redis+sentinel://***", "path"},
	"unix:///run/x.sock&password=sesame":              {"unix://***", "path"},
	"unix://sesame/x.sock":                            {"unix://***", "path"},
	"redis+sentinel://h/m?password=a&sesame=b":        {"redis+sentinel://***", "option 2"},
	"redis+sentinel://h/m?password=%zzsesame":         {"redis+sentinel://***", "option password"},
	"redis://h?pasword=sesame":                        {"redis://***", "option 1"},
	"redis://h?sesame":                                {"redis://***", "option 1"},
	"redis://h?password=sesame":                       {"redis://***", "option password"},
	"redis://h?db=0?password=sesame":                  {"redis://***", "option db"},
	"redis://h?db=0;password=sesame":                  {"redis://***", "option db"},
	"redis://h?db=0#sesame":                           {"redis://***", "option db"},
	"redis://h?db=sesame":                             {"redis://***", "option db"},
	"redis://h?read_timeout=1s,sesame":                {"redis://***", "option read_timeout"},
	"redis://h?dial_timeout=sesame":                   {"redis://***", "option dial_timeout"},
	"redis://h?protocol=sesame":                       {"redis://***", "option protocol"},
	"redis://h?max_retries=sesame":                    {"redis://***", "option max_retries"},
	"redis://h?addr=sesame":                           {"redis://***", "option addr"},
	"redis+cluster://h?addr=sesame":                   {"redis+cluster://***", "option addr"},
	"redis+cluster://h?addr=h:sesame":                 {"redis+cluster://***", "option addr"},
	"redis://h?skip_verify=sesame":                    {"redis://***", "option skip_verify"},
	"rediss://h?skip_verify=sesame":                   {"rediss://***", "option skip_verify"},
	"redis://h?idle_timeout=1s&conn_max_idle_time=1s": {"redis://***", "options"},
	"sesame://h":                                      {"***", "scheme"},
	"Open sesame://h":                                 {"***", "scheme"},
}

// TestAddressesShowNoSecret: however an address is printed or wrong. What is wrong is refused before anything is sent.
func TestAddressesShowNoSecret(t *testing.T) {
	for text, want := range shownAs {
		a := newAddress(text)
		assert.Equal(t, want.shown, a.String(), text)
		require.Equal(t, text, a.reveal())
		c := connection{addresses: []address{a}}
		document, err := json.Marshal(map[string]any{"a": a, "all": c.addresses})
		require.NoError(t, err)
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "address", a, "connection", c)
		printed := fmt.Sprint(a, &a, c, &c, struct{ inner address }{a}, string(document), &log, c.flags())
		for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%q", "%x"} {
			printed += fmt.Sprintf(verb+verb, a, c)
		}
		assert.NotContains(t, printed, "sesame", text)
		rdb, err := a.open(nil)
		if err == nil {
			require.NoError(t, rdb.Close())
			assert.Empty(t, want.refused, text)
			continue
		}
		assert.NotEmpty(t, want.refused, "%s: %v", text, err)
		assert.ErrorContains(t, err, `": `+want.refused+": ", text)
		assert.NotContains(t, err.Error(), "sesame", text)
	}
}

// TestErrorsShowNoSecret: no command repeats a secret of an address that is wrong, or stands where none belongs.
func TestErrorsShowNoSecret(t *testing.T) {
	for text := range shownAs {
		if !strings.Contains(text, "sesame") || strings.Contains(text, "esame://") {
			continue
		}
		for _, args := range [][]string{
			{"run", "--name", "n", "--redis", text, "--tls-ca", "/no/such.pem", "true"}, {"demo", "--redis", text, "--emulation"},
			{"doctor", text}, {"demo", text}, {text}, {"-redis=" + text}, {"run", "--wait", text}, {"unlock", text}, {"ui", "--listen", text},
			{"run", "--name", "n", "--kind", "redlock", "--redis", text, "--redis", text, "--redis", text, "true"},
			{"inspect", "--json", text}, {"watch", text}, {"ls", text}, {"top", "--once", text}, {"run", "--name", text, "false"},
			{"run", "--name", "n", "--kind", "multilock", "--also", text, "false"},
		} {
			if !strings.Contains(text, "://") && args[len(args)-1] != "true" { // it may be anything
				continue
			}
			code, stdout, stderr := says(args...)
			assert.Equal(t, exitUsage, code, args)
			assert.NotContains(t, stdout+stderr, "sesame", args)
		}
	}
}

// TestEnvironmentShowsNoSecret: a space in a password makes no further addresses of what is behind it.
func TestEnvironmentShowsNoSecret(t *testing.T) {
	for _, text := range []string{"redis://u:12 sesame@h", "redis://u:12 sesame 3@127.0.0.1:1", "redis://a redis://u:12 sesame@h", "redis://a sesame://h"} {
		t.Setenv(redisEnv, text)
		code, stdout, stderr := says("ls")
		assert.Equal(t, exitUsage, code, text)
		assert.NotRegexp(t, "sesame|u:12", stdout+stderr, text)
	}
	t.Setenv(redisEnv, "  redis://a  rediss://b\n")
	require.Equal(t, []string{"redis://a", "rediss://b"}, []string{fromEnvironment()[0].reveal(), fromEnvironment()[1].reveal()})
}

// TestPasswordsBehindSentinel: Sentinels and data servers have passwords of their own, and no command shows one of them.
func TestPasswordsBehindSentinel(t *testing.T) {
	t.Parallel()
	group := redistest.StartSentinel(t)
	primary := group.Primary(t)
	if primary.Major() < 7 {
		t.Skip("Sentinels of Redis 6.0 have no users")
	}
	rdb := primary.Client(t)
	rdb.HSet(t.Context(), "held", "11111111-2222-4333-8444-555555555555:h1", 1)
	rdb.PExpire(t.Context(), "held", time.Hour)
	primary.Command(t, "ACL", "SETUSER", "default", "resetpass", ">sesame2")
	for _, s := range group.Sentinels {
		s.Command(t, "ACL", "SETUSER", "default", "resetpass", ">sesame1")
	}
	hosts := strings.Join(group.Addrs(), ",")
	for address, want := range map[string]struct {
		code int
		says string
	}{
		"redis+sentinel://" + hosts + "/holdfast?password=sesame2":                  {exitNoServer, "put user and password of the Sentinels into"},
		"redis+sentinel://:sesame1@" + hosts + "/holdfast":                          {exitHoldfast, "/mymaster?username=user&password=password"},
		"redis+sentinel://:sesame1@" + hosts + "/holdfast?password=sesame3":         {exitHoldfast, "/mymaster?username=user&password=password"},
		"redis+sentinel://:sesame1@" + hosts + "/holdfast?password=sesame2&db=0":    {0, "held"},
		"redis+sentinel://sesame:sesame1@" + hosts + "/other?password=sesame2&db=0": {exitNoServer, "of the Sentinels"},
	} {
		for _, command := range []string{"inspect held", "doctor", "doctor --json", "ls --redisson", "run --name n"} {
			args := append(strings.Fields(command), "--redis", address)
			if args[0] == "run" {
				args = append(args, "--", "true")
			}
			code, stdout, stderr := says(args...)
			require.NotContains(t, stdout+stderr, "sesame", args)
			if want.code != 0 || args[0] != "doctor" && args[0] != "run" {
				require.Equal(t, want.code, code, stderr)
				require.Contains(t, stdout+stderr, want.says)
			}
		}
	}
}

// TestTLS: a server that asks for a certificate of its authority lets in who shows one, by flags and
// by the environment, and whoever lacks a file is told which flag it is.
func TestTLS(t *testing.T) {
	t.Parallel()
	certs := redistest.NewCerts(t)
	srv := redistest.Start(t, redistest.TLS(certs))
	ca, cert, key := certs.Files()
	stranger, strangersKey := strangers(t)
	for what, c := range map[string]struct {
		address string
		flags   []string
		env     []string
		code    int
		says    string
	}{
		"all of them": {"rediss://" + srv.TLSAddr(), []string{"--tls-ca", ca, "--tls-cert", cert, "--tls-key", key},
			nil, 0, ""},
		"from environment": {"rediss://" + srv.TLSAddr(), nil, []string{"HOLDFAST_TLS_CA=" + ca, "HOLDFAST_TLS_CERT=" +
			cert, "HOLDFAST_TLS_KEY=" + key}, 0, ""},
		"no authority": {"rediss://" + srv.TLSAddr(), []string{"--tls-cert", cert, "--tls-key", key}, nil, exitNoServer,
			"give the certificate of its authority as --tls-ca"},
		"no certificate": {"rediss://" + srv.TLSAddr(), []string{"--tls-ca", ca}, nil, exitNoServer,
			"as --tls-cert and --tls-key"},
		"a stranger's": {"rediss://" + srv.TLSAddr(), []string{"--tls-ca", ca, "--tls-cert", stranger, "--tls-key",
			strangersKey}, nil, exitNoServer, "as --tls-cert and --tls-key"},
		"plain client": {"redis://" + srv.TLSAddr(), nil, nil, exitNoServer, "write rediss://"},
	} {
		t.Run(what, func(t *testing.T) {
			args := append([]string{"run", "--name", t.Name(), "--redis", c.address}, c.flags...)
			p := start(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, c.env...) }, append(args, "--", "true")...)
			require.Equal(t, c.code, p.end(), p.stderr.String())
			require.Contains(t, p.stderr.String(), c.says)
		})
	}
}

// TestHungUpOn: the server's alert may be lost to a reset, and what remains is a connection that was closed.
func TestHungUpOn(t *testing.T) {
	t.Parallel()
	for _, err := range []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF} {
		says := newAddress("rediss://h:1").unanswered(fmt.Errorf("write tcp: %w", err))
		require.Contains(t, says, "as --tls-cert and --tls-key", err)
	}
	require.NotContains(t, newAddress("rediss://h:1").unanswered(syscall.ECONNREFUSED), "--tls-cert")
}

// strangers are a certificate and its key, of another authority.
func strangers(t *testing.T) (cert, key string) {
	_, cert, key = redistest.NewCerts(t).Files()
	return cert, key
}

// TestTLSFiles: for every form of an address a mistake in the files is found before anything is sent: nothing listens there.
func TestTLSFiles(t *testing.T) {
	ca, cert, key := redistest.NewCerts(t).Files()
	_, other := strangers(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for what, c := range map[string]struct {
		args []string
		says []string
	}{
		"no such file": {[]string{"--tls-ca", "/no/ca.pem"}, []string{"--tls-ca", "/no/ca.pem", "no such file",
			"in PEM"}},
		"no certificate in it": {[]string{"--tls-ca", empty}, []string{"--tls-ca", empty, "BEGIN CERTIFICATE"}},
		"no key":               {[]string{"--tls-cert", cert}, []string{cert, "--tls-key is missing"}},
		"no certificate":       {[]string{"--tls-key", key}, []string{key, "--tls-cert is missing"}},
		"another's key": {[]string{"--tls-cert", cert, "--tls-key", other}, []string{"does not match",
			"give a certificate and its key"}},
		"without TLS": {[]string{"--redis", "redis://:pw@h", "--tls-ca", ca}, []string{"redis://***@h",
			"without TLS", "write rediss://"}},
		"a cluster without": {[]string{"--redis", "h1,h2", "--tls-ca", ca}, []string{"h1,h2", "without TLS",
			"write rediss://"}},
		"a Sentinel without": {[]string{"--redis", "redis+sentinel://h/m", "--tls-ca", ca}, []string{"without TLS",
			"write rediss://"}},
	} {
		t.Run(what, func(t *testing.T) {
			args := append([]string{"run", "--name", "n", "--redis", "rediss://127.0.0.1:1"}, c.args...)
			if len(c.args) == 4 && c.args[0] == "--redis" {
				args = append([]string{"run", "--name", "n"}, c.args...)
			}
			code, _, stderr := says(append(args, "--", "true")...)
			require.Equal(t, exitUsage, code, stderr)
			has(t, stderr, c.says...)
			require.NotContains(t, stderr, "pw")
		})
	}
}

// TestAdviceIsOfTheAddress: who gave no password, or only a user, is shown an address of the same form with one.
func TestAdviceIsOfTheAddress(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	srv := redistest.Start(t, redistest.Args("--unixsocket", socket, "--unixsocketperm", "700"))
	require.NoError(t, srv.Client(t).ConfigSet(t.Context(), "requirepass", "sesame").Err())
	for address, advice := range map[string]string{
		"redis://" + srv.Addr():         "as in redis://user:password@host:port",
		"redis+cluster://" + srv.Addr(): "as in redis+cluster://user:password@host:port",
		"unix://" + socket:              "as in unix://user:password@/path",
		"unix://sesame@" + socket:       "write unix://:password@/path, or unix://user:password@/path",
	} {
		code, _, stderr := says("ls", "--redis", address)
		require.Equal(t, exitHoldfast, code, stderr)
		require.Contains(t, stderr, advice, address)
	}
	code, _, stderr := says("ls", "--redis", "unix://:sesame@"+socket)
	require.Zero(t, code, "control: as the advice says: %s", stderr)
}
