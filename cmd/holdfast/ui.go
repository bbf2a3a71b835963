package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/lua"
)

const uiLong = `Serves a page that shows the locks in Redis: who has them and since when, who waits, and what looks wrong. It is live,
has a filter and a page for each lock, and works without JavaScript.

The page only reads. With --allow-unlock it can end a hold, after a question: that of the owner and the grant on the
page, and no other. Each attempt is a line on stderr.

The command listens on this machine only. Anybody with an account on it can open the page, and nobody else. The command
refuses a request for another host's name, so that no page of the web can read it through your browser. With --listen
on another address, anybody who reaches that address can read the names of locks, and end holds with --allow-unlock:
there is no password. For a page for a team, mount package holdfastweb in a service that knows who people are.

The page takes at most 1 % of the server's time, however many people look, and none while nobody does. With several
--redis, for a redlock, it lists what each master has. A replica does not know who listens, and ends no hold: the page
says so.

Exit codes:
  0      a signal ended it
  64     bad flag or argument
  69     Redis did not answer at the beginning; later, the page says so
  125    the command cannot listen on --listen, or Redis refuses: its password, or a permission

` + redisForms

// uiConfig is what the flags of "ui" amount to.
type uiConfig struct {
	connection
	listen   string
	unlock   bool
	match    string
	redisson bool
}

const uiDefault = "127.0.0.1:7420"

func newUI() *cobra.Command {
	var c uiConfig
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a page that shows the locks in Redis, live",
		Long:  uiLong,
		Example: `  holdfast ui                     # then open the address that it prints
  holdfast ui --allow-unlock --redis redis://db:6379

  # look at it from afar
  ssh -L 7420:127.0.0.1:7420 bastion holdfast ui`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return c.serve(cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.listen, "listen", uiDefault, "listen on `HOST:PORT`; port 0 takes any that is free")
	f.BoolVar(&c.unlock, "allow-unlock", false, "let whoever opens the page end holds")
	f.StringVar(&c.match, "match", "", "only names of this `PATTERN`, as in \"holdfast ls\"")
	f.BoolVar(&c.redisson, "redisson", false, "also locks that only Redisson has used; goes through all keys twice")
	c.connection.addTo(cmd)
	return cmd
}

func (c *uiConfig) check() error {
	host, port, err := net.SplitHostPort(c.listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return fail(exitUsage, "--listen is %q, which is not an address; use HOST:PORT, as in %s", c.listen, uiDefault)
	}
	if host == "" {
		return fail(exitUsage, "--listen is %q, which would be every address of this machine; if that is meant, say 0.0.0.0%s", c.listen, c.listen)
	}
	return nil
}

func (c *uiConfig) serve(stdout, stderr io.Writer) error {
	ctx, stop := untilSignal()
	defer stop()
	clients, err := c.all()
	if err != nil {
		return err
	}
	defer closeAll(clients)
	if err := c.reach(ctx, clients); err != nil {
		return c.unlessSignalled(ctx, err)
	}
	if len(clients) == 1 { // of several, the page says which one refuses
		if err := mayLook(ctx, clients[0], c.addresses[0]); err != nil {
			return c.unlessSignalled(ctx, c.explain(err))
		}
	}
	for _, rdb := range clients {
		if isNode(ctx, rdb) {
			warn(stderr, onNode)
		}
	}
	page, err := c.page(clients, stderr)
	if err != nil {
		return failure{exitHoldfast, err}
	}
	defer page.Close()
	l, err := net.Listen("tcp", c.listen)
	if err != nil {
		return fail(exitHoldfast, "--listen: %w; give another address, or port 0 for any that is free", err)
	}
	local := isLoopback(l.Addr())
	if !local {
		c.warn(stderr)
	}
	fmt.Fprintf(stdout, "http://%s/\n", l.Addr())
	handler := http.Handler(page)
	if local {
		handler = onlyLocal(page)
	}
	return serveUntil(ctx, l, handler, page)
}

// mayLook looks at a lock that is probably not there, to see a refusal before the page is served.
func mayLook(ctx context.Context, rdb redis.UniversalClient, a address) error {
	i, err := newInspector(rdb, a)
	if err == nil {
		_, err = i.Lock(ctx, "holdfast")
	}
	if lua.IsError(err, "MOVED") { // it belongs to another node, and of that there is a warning
		return nil
	}
	return err
}

// unlessSignalled is nil if it was a signal that ended what had begun.
func (c *uiConfig) unlessSignalled(ctx context.Context, err error) error {
	var s signalled
	if errors.As(context.Cause(ctx), &s) {
		return nil
	}
	return err
}

// serveUntil serves until a signal comes, and ends what is open then.
func serveUntil(ctx context.Context, l net.Listener, handler http.Handler, page *holdfastweb.Handler) error {
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return failure{exitHoldfast, err}
	case <-ctx.Done():
	}
	page.Close() // else live pages would keep the server from ending
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if srv.Shutdown(within) != nil {
		_ = srv.Close() // somebody is slow, and is not waited for
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return failure{exitHoldfast, err}
	}
	return nil
}

func (c *uiConfig) page(clients []redis.UniversalClient, stderr io.Writer) (*holdfastweb.Handler, error) {
	opts := &holdfastweb.Options{
		Title: "Locks at " + c.String(), Masters: clients[1:], Match: c.match, Redisson: c.redisson,
		Logger: slog.New(slog.NewTextHandler(stderr, nil)),
	}
	if c.unlock {
		opts.Permit = func(r *http.Request, _ string) (string, bool) { return r.RemoteAddr, true }
	}
	return holdfastweb.New(clients[0], opts)
}

func (c *uiConfig) warn(stderr io.Writer) {
	does := "read the names of locks and who has them"
	if c.unlock {
		does += ", and end holds"
	}
	warn(stderr, "%s is not of this machine alone: whoever reaches it can %s, without a password", c.listen, does)
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// onlyLocal refuses requests that name another host. A page of the web can have its own name point to
// this machine, and the browser would let it read what is here.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localHost(r.Host) {
			http.Error(w, "This page is for this machine only: open it as http://127.0.0.1 with its port, or as localhost.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// localHost reports whether a Host header names this machine, at whatever port: a tunnel may have another.
func localHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
