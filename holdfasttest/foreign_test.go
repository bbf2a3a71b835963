package holdfasttest_test

import (
	"context"
	"errors"
	"regexp"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
)

// place is where in a script a command was refused, and the address of a server: of both each server has its own.
var place = regexp.MustCompile(`\s*script: (\S+, )?on @user_script:\d+\.|127\.0\.0\.1:\d+`)

// foreign puts what is no lock at a name, or beside it, and returns the errors of all kinds of calls.
func foreign(t *testing.T, rdb redis.UniversalClient, c *holdfast.Client) map[string]string {
	ctx, all := context.Background(), map[string]string{}
	said, _ := keys.Election("n")
	contents := map[string][]any{"text": {"SET", "text"}, "hash": {"HSET", "field", "value"}, "list": {"RPUSH", "item"}, "set": {"SADD", "member"},
		"zset": {"ZADD", 1, "member"}}
	k, p := keys.For("n"), keys.ForPermits("n")
	for _, at := range []string{k.Name, k.Token, k.Queue, k.Deadlines, p.Ends, p.Queue, said} {
		for content, put := range contents {
			calls := map[string]func() error{
				"latch set":        func() error { _, err := latch.New(c, "n").Set(ctx, 1); return err },
				"latch count":      func() error { _, err := latch.New(c, "n").Count(ctx); return err },
				"latch count down": func() error { _, err := latch.New(c, "n").CountDown(ctx); return err },
				"latch delete":     func() error { _, err := latch.New(c, "n").Delete(ctx); return err },
				"campaign":         func() error { return given(election.New(c, "n").Campaign(ctx, "v", holdfast.Wait(0))) },
				"leader":           func() error { _, err := election.New(c, "n").Leader(ctx); return err },
			}
			for kind, make := range kinds {
				calls[kind] = func() error { return given(make(c, "n").Lock(ctx, holdfast.Wait(0))) }
			}
			for what, call := range calls {
				require.NoError(t, rdb.FlushAll(ctx).Err())
				require.NoError(t, rdb.Do(ctx, append([]any{put[0], at}, put[1:]...)...).Err())
				text := "granted"
				if err := call(); err != nil {
					text = what + ": " + place.ReplaceAllString(err.Error(), "")
					var reply redis.Error
					if errors.As(err, &reply) {
						text += " | " + place.ReplaceAllString(reply.Error(), "")
					}
				}
				all[at+" is a "+content+": "+what] = text
			}
		}
	}
	return all
}

// given gives back a lock that was granted: the next call finds nothing of it in the client.
func given(h *holdfast.Hold, err error) error {
	if err == nil {
		_ = h.Unlock(context.Background()) // the key beside it is foreign still
	}
	return err
}

// TestForeignKeys: what is at the name of a lock, or beside it, and is of another type or content is told in a server's words.
func TestForeignKeys(t *testing.T) {
	srv := redistest.Start(t)
	if srv.Major() < 7 {
		t.Skip("servers before Redis 7 put a text of their own around it")
	}
	real, err := holdfast.New(srv.Client(t), nil)
	require.NoError(t, err)
	redistest.CloseAtEnd(t, real)
	server := holdfasttest.New(t, holdfasttest.AllowHeld())
	want, got := foreign(t, srv.Client(t), real), foreign(t, server.Redis(), server.Client(nil))
	for name, text := range want {
		assert.Equal(t, text, got[name], name)
	}
}
