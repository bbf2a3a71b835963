package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// connection is what the flags amount to that say where Redis is, and how to be let in. All commands
// that ask a server of the user's have the same ones.
type connection struct {
	addresses []address // more than one: independent masters
	tls       tlsFiles
}

// addTo gives a command the flags. The environment may hold passwords, so the help shows what stands
// behind them.
func (c *connection) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	c.addresses = fromEnvironment()
	f.Var(&addressFlag{all: &c.addresses}, "redis", "where Redis is, as a `URL`; see above. With a password in it rather use $"+redisEnv)
	f.Lookup("redis").DefValue = "$" + redisEnv + " or " + redisDefault
	for name, file := range map[string]struct {
		path *string
		use  string
	}{
		"tls-ca":   {&c.tls.ca, "certificate `FILE` of the server's authority, if the system does not know it"},
		"tls-cert": {&c.tls.cert, "certificate `FILE` of this client, if the server asks for one"},
		"tls-key":  {&c.tls.key, "key `FILE` of that certificate"},
	} {
		f.StringVar(file.path, name, os.Getenv(tlsEnv(name)), file.use+"; default $"+tlsEnv(name))
		f.Lookup(name).DefValue = ""
		_ = cmd.MarkFlagFilename(name, "pem", "crt", "cer", "key") // fails only for a flag that there is not
	}
}

// one makes a client of the only server. Nothing is sent.
func (c *connection) one() (redis.UniversalClient, error) {
	if len(c.addresses) > 1 {
		return nil, fail(exitUsage, "--redis (or %s) has %d servers, and only redlock is asked of several; give one",
			redisEnv, len(c.addresses))
	}
	all, err := c.all()
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// all makes a client of each server. Nothing is sent.
func (c *connection) all() (clients []redis.UniversalClient, err error) {
	files, err := c.tls.load()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeAll(clients)
			clients = nil
		}
	}()
	for i, a := range c.addresses {
		if slices.ContainsFunc(c.addresses[:i], a.same) {
			return clients, fail(exitUsage, "--redis has %s twice, and a master has one vote; leave one out", a)
		}
		rdb, err := a.open(files)
		if err != nil {
			return clients, err
		}
		clients = append(clients, rdb)
	}
	return clients, nil
}

func closeAll(clients []redis.UniversalClient) {
	for _, rdb := range clients {
		_ = rdb.Close() // what was said is said
	}
}

// closeAtSignal closes the clients of a command that only looks when a signal ends ctx: go-redis waits for an answer that is due
// until its own timeout. stop ends that.
func closeAtSignal(ctx context.Context, clients []redis.UniversalClient) (stop func() bool) {
	return context.AfterFunc(ctx, func() { closeAll(clients) })
}

// String is for messages.
func (c *connection) String() string { return shownAddresses(c.addresses) }

// at is the connection of one of the servers.
func (c *connection) at(n int) *connection {
	one := *c
	if n < len(c.addresses) {
		one.addresses = c.addresses[n : n+1]
	}
	return &one
}

// flags are what another command needs to reach the same servers from the same shell: empty where the
// environment or the default says it. An address with a secret is URL.
func (c *connection) flags() string {
	var b strings.Builder
	if !slices.EqualFunc(c.addresses, fromEnvironment(), address.same) {
		for _, a := range c.addresses {
			text := "URL"
			if !a.secret() {
				text = shellWord(a.reveal())
			}
			b.WriteString(" --redis " + text)
		}
	}
	b.WriteString(c.tls.flags())
	return b.String()
}

// fromEnvironment are the addresses of a command without the flag. Of several each begins with its scheme.
func fromEnvironment() (all []address) {
	text := cmp.Or(strings.TrimSpace(os.Getenv(redisEnv)), redisDefault)
	texts := strings.Fields(text)
	if slices.ContainsFunc(texts, func(t string) bool { return !schemeForm.MatchString(t) }) {
		texts = []string{text} // that a space is in, which may be of a password
	}
	for _, text := range texts {
		all = append(all, newAddress(text))
	}
	return all
}

// noMaster reports whether no Sentinel names a master. What they have answered in place of that is in
// the error, and is no answer of a server with locks.
func noMaster(err error) bool { return strings.Contains(err.Error(), "all sentinels specified") }

// reach asks the servers whether they answer, all at once, and returns when a majority has: of one
// server, when it has. An error will do for an answer, as the next command will say what is wrong, but not one that
// lets nobody in: some commands show an address and send no other command. A signal ends the wait: it is no outage.
func (c *connection) reach(parent context.Context, clients []redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(parent, answerWithin)
	defer cancel()
	// Who is slow is not waited for: go-redis does not interrupt a read when ctx ends, but when the
	// client is closed.
	answers := make(chan error, len(clients))
	for i, rdb := range clients {
		go func() {
			at := c.addresses[i]
			err := rdb.Ping(ctx).Err()
			var reply redis.Error
			if err != nil && refuses(err) {
				one := *c
				one.addresses = []address{at}
				answers <- one.explain(err)
				return
			}
			if err == nil || errors.As(err, &reply) && !noMaster(err) {
				answers <- nil
				return
			}
			answers <- fail(exitNoServer, "no answer from Redis at %s: %w; %s", at, withoutAddress(at, printable.Error(err)), at.unanswered(err))
		}()
	}
	var silent []error
	n := len(clients)
	for answered := 0; answered <= n/2; {
		var err error
		select {
		case err = <-answers:
		case <-parent.Done():
		}
		if parent.Err() != nil {
			return context.Cause(parent)
		}
		if err == nil {
			answered++
			continue
		}
		switch silent = append(silent, err); {
		case n == 1:
			return err
		case len(silent) >= n-n/2:
			for _, err := range silent {
				var f failure
				if errors.As(err, &f) && f.code != exitNoServer { // it has answered
					return err
				}
			}
			do := "do"
			if len(silent) == 1 {
				do = "does"
			}
			return fail(exitNoServer, "%d of %d masters %s not answer, and a majority must: %w", len(silent), n, do, err)
		}
	}
	return nil
}
