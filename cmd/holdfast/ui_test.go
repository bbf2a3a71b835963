package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// page starts "ui" and returns where its page is.
func page(t *testing.T, p *program) string {
	t.Helper()
	p.prints(t, "/\n")
	return strings.TrimSpace(p.stdout.String())
}

func fetch(t *testing.T, method, url, host string) (code int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	require.NoError(t, err)
	r.Host = host
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

// TestUI: it listens on this machine, shows the locks, refuses other hosts' names, and ends with a signal while it is watched.
func TestUI(t *testing.T) {
	t.Parallel()
	srv, h := taken(t)
	p := command(t, srv, "ui", "--listen", "127.0.0.1:0")
	url := page(t, p)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/$`, url)
	code, body := fetch(t, http.MethodGet, url, "")
	require.Equal(t, http.StatusOK, code)
	has(t, body, "orders:42", "Locks at redis://"+srv.Addr())

	for host, want := range map[string]int{
		"localhost": 200, "localhost:9": 200, "127.0.0.7:80": 200, "[::1]:80": 200, "LOCALHOST.": 200, "evil.example": 403, "127.0.0.1.evil.example:80": 403,
		"10.0.0.1": 403, "localhost.evil.example": 403,
	} {
		code, body := fetch(t, http.MethodGet, url, host)
		require.Equal(t, want, code, host)
		require.Equal(t, want == 200, strings.Contains(body, "orders:42"))
	}
	code, body = fetch(t, http.MethodPost, url+"end?name=orders%3A42&part=0&owner="+h.Owner(), "")
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, body, "--allow-unlock")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"events", nil)
	require.NoError(t, err)
	live, err := (&http.Client{Transport: &http.Transport{}}).Do(r)
	require.NoError(t, err)
	defer live.Body.Close()
	require.Zero(t, p.told(t, syscall.SIGINT), p.stderr.String())
	require.Empty(t, p.stderr.String())
	require.NoError(t, h.Context().Err())
}

// TestUIUnlocks: with --allow-unlock, and only that grant; each attempt is a line.
func TestUIUnlocks(t *testing.T) {
	t.Parallel()
	srv, h := taken(t)
	p := command(t, srv, "ui", "--listen", "127.0.0.1:0", "--allow-unlock")
	url := page(t, p)
	end := url + "end?name=orders%3A42&owner=" + h.Owner()
	code, body := fetch(t, http.MethodPost, end+"&part=0:7", "")
	require.Equal(t, http.StatusConflict, code)
	require.Contains(t, body, "Nothing was changed")
	require.EqualValues(t, 1, exists(t, srv.Client(t), "orders:42"))
	code, _ = fetch(t, http.MethodPost, end+"&part=0", "")
	require.Equal(t, http.StatusOK, code)
	require.Zero(t, exists(t, srv.Client(t), "orders:42"))
	require.Zero(t, p.told(t, syscall.SIGTERM))
	has(t, p.stderr.String(), "a hold was not ended", "a hold was ended", "lock=orders:42")
}

// TestUIWarns: of an address that others reach, and takes names of any host there. A port that is taken is an error.
func TestUIWarns(t *testing.T) {
	t.Parallel()
	srv, _ := taken(t)
	p := command(t, srv, "ui", "--listen", "0.0.0.0:0", "--allow-unlock")
	url := page(t, p)
	eventually(t, func() bool { return strings.Contains(p.stderr.String(), "and end holds, without a password") }, "the warning")
	_, port, err := net.SplitHostPort(strings.Trim(strings.TrimPrefix(url, "http://"), "/"))
	require.NoError(t, err)
	code, _ := fetch(t, http.MethodGet, "http://127.0.0.1:"+port+"/", "locks.example")
	require.Equal(t, http.StatusOK, code)
	code, _, errs := ask(srv, "ui", "--listen", "127.0.0.1:"+port)
	require.Equal(t, exitHoldfast, code)
	require.Contains(t, errs, "port 0 for any that is free")
	require.Zero(t, p.told(t, syscall.SIGINT))
}
