package doctor

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestLife: a lock lives on a server where locks work, and leaves nothing. Where scripts, or the
// messages to who waits, are forbidden, it is said at which step.
func TestLife(t *testing.T) {
	srv := redistest.Start(t)
	expect(t, only(t, life(t.Context(), admitted(t, srv.Client(t), Settings{}))), OK,
		"refused to another client, granted to it, and released")
	empty(t, srv)
	for without, says := range map[string]string{
		"-evalsha -eval": "could not be granted", "-hexists": "could not be entered again",
		"-hgetall": "could not be looked at",
	} {
		t.Run(without, func(t *testing.T) {
			rdb := user(t, srv, "~* &* +@all "+without)
			f := only(t, life(t.Context(), admitted(t, rdb, Settings{})))
			expect(t, f, Error, says)
		})
	}
}

// TestLifeIsRefused: what a server that takes no writes says is no matter of permissions, and the remedy is one for that.
func TestLifeIsRefused(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	for what, c := range map[string]struct {
		make   func()
		remedy string
	}{
		"READONLY":   {func() { replica.Command(t, "REPLICAOF", "127.0.0.1", strings.Split(master.Addr(), ":")[1]) }, "name the master"},
		"NOREPLICAS": {func() { replica.Command(t, "CONFIG", "SET", "min-replicas-to-write", "1") }, "bring the replicas back"},
		"OOM":        {func() { replica.Command(t, "CONFIG", "SET", "maxmemory", "1") }, "raise maxmemory"},
	} {
		t.Run(what, func(t *testing.T) {
			p := admitted(t, replica.Client(t), Settings{})
			c.make()
			f := only(t, life(t.Context(), p))
			replica.Command(t, "REPLICAOF", "NO", "ONE")
			replica.Command(t, "CONFIG", "SET", "min-replicas-to-write", "0")
			replica.Command(t, "CONFIG", "SET", "maxmemory", "0")
			require.Contains(t, f.Found, what)
			require.Contains(t, f.Remedy, c.remedy)
			require.NotContains(t, f.Remedy, "permission")
			require.NotContains(t, f.Remedy, "give this user")
		})
	}
	require.Equal(t, "p", remedy(user(t, master, "~* &* +@all -get").Get(t.Context(), "k").Err(), "p"), "the control: one is missing")
}

// TestMessagesFromElsewhere: behind one address are two servers, and subscriptions go to the other
// one. The control is the same client with both on one.
func TestMessagesFromElsewhere(t *testing.T) {
	srv, other := redistest.Start(t), redistest.Start(t)
	for name, c := range map[string]struct {
		second string
		level  Level
		says   string
	}{
		"two servers": {other.Addr(), Error, "a message to oneself did not arrive: nothing for"},
		"one":         {srv.Addr(), OK, "arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			var dialled atomic.Int64
			rdb := srv.Client(t, func(o *redis.Options) {
				o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
					address := srv.Addr()
					if dialled.Add(1) > 1 { // the first is for commands, and stays in the pool
						address = c.second
					}
					return new(net.Dialer).DialContext(ctx, network, address)
				}
			})
			p := admitted(t, rdb, Settings{})
			if c.level == Error {
				p.patience = 10 * time.Millisecond // nothing will come, however long it is waited for
			} else {
				p.patience = limit
			}
			expect(t, only(t, messages(t.Context(), p)), c.level, c.says)
		})
	}
}

// TestMessagesThatAreForbidden: who may not listen, or not publish, is told which.
func TestMessagesThatAreForbidden(t *testing.T) {
	srv := redistest.Start(t)
	for rule, says := range map[string]string{
		"~* &* +@all -subscribe": "not confirmed: NOPERM",
		"~* &* +@all -publish":   "could not be published: NOPERM",
		"~* &orders:* +@all":     "not confirmed: NOPERM",
		"~* &other +@all":        "not confirmed: NOPERM",
		"~* &redisson_* +@all":   "",
	} {
		if srv.Major() < 7 && strings.Contains(says, "not confirmed") != strings.Contains(rule, "-subscribe") {
			continue // where there are no permissions for channels
		}
		t.Run(rule, func(t *testing.T) {
			f := only(t, messages(t.Context(), admitted(t, user(t, srv, rule), Settings{})))
			if says == "" {
				expect(t, f, OK)
				return
			}
			expect(t, f, Error, says, "sleeps until the lease")
		})
	}
}

// TestDenied: what others were refused is a note, on servers that count it. Of others nothing is said.
func TestDenied(t *testing.T) {
	redistest.EachProgram(t, func(t *testing.T, program redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(program.Path))
		rdb := srv.Client(t)
		require.Empty(t, denied(t.Context(), admitted(t, rdb, Settings{})), "control")
		require.Error(t, user(t, srv, "~* &* +@all -get").Get(t.Context(), "k").Err())
		p := admitted(t, rdb, Settings{})
		if _, counts := p.infos["stats"].fields["acl_access_denied_cmd"]; !counts {
			require.Empty(t, denied(t.Context(), p))
			return
		}
		expect(t, only(t, denied(t.Context(), p)), Note, "1 commands", "ACL LOG")
	})
}

// TestDeniedAsCounted: what servers since 7.2 say of their counts, for a run that has an older one only.
func TestDeniedAsCounted(t *testing.T) {
	found := func(stats string) []Finding {
		return denied(t.Context(), &patient{infos: map[string]answer{"stats": {fields: infoFields(stats)}}})
	}
	const counts = "acl_access_denied_auth:4\r\nacl_access_denied_cmd:%d\r\n" +
		"acl_access_denied_key:%d\r\nacl_access_denied_channel:%d\r\n"
	expect(t, only(t, found(fmt.Sprintf(counts, 1, 2, 3))), Note, "1 commands, 2 on keys, 3 on channels", "ACL LOG")
	require.Empty(t, found(fmt.Sprintf(counts, 0, 0, 0)))
	require.Empty(t, found("total_commands_processed:1\r\n"), "a server that does not count")
}
