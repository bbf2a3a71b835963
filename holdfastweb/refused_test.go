package holdfastweb_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// looks is what a user may do who looks at locks, as docs/security.md has it, without labels and without what is
// for other commands than the page's.
const looks = "+scan +evalsha_ro +eval_ro +exists +get +getrange +hexists +hget +hkeys +hlen +hscan +hstrlen +llen +lrange +pttl +strlen " +
	"+time +type +zcard +zcount +zrange +zrangebyscore +zscore +pubsub|numsub %R~*"

// TestRefused: without each permission the page says that Redis refuses, and what to do, and never that there are
// no locks: or it shows all locks, where nothing that they are known by was refused. The control is the rule as a
// whole.
func TestRefused(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	all := looks
	if srv.Major() < 7 { // no scripts that only read, nor such a permission
		all = strings.NewReplacer("_ro", "", "%R~*", "~*").Replace(looks)
	}
	rdb := srv.Client(t)
	const us = "11111111-2222-4333-8444-555555555555:h"
	ctx := t.Context()
	require.NoError(t, rdb.HSet(ctx, "plain", us+"1", 1).Err())
	require.NoError(t, rdb.HSet(ctx, "rw", "mode", "read", us+"1", 1).Err())
	require.NoError(t, rdb.RPush(ctx, "redisson_lock_queue:{plain}", us+"2").Err())
	require.NoError(t, rdb.ZAdd(ctx, "redisson_lock_timeout:{plain}", redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: us + "2"}).Err())
	for _, name := range []string{"plain", "rw"} {
		require.NoError(t, rdb.Set(ctx, "redisson_lock_token:{"+name+"}", 5000, time.Hour).Err())
	}
	for word := range strings.FieldsSeq("nothing " + all) {
		rule := strings.Fields(strings.Replace(all+" ", word+" ", "", 1))
		srv.Command(t, append([]string{"ACL", "SETUSER", "watcher", "reset", "on", ">secret"}, rule...)...)
		srv.Command(t, "SCRIPT", "FLUSH")
		user := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "watcher", Password: "secret"})
		page := newPage(t, user, quick(holdfastweb.Options{}))
		var a answer
		eventually(t, word+": something is known", func() bool {
			a = get(t, page, "/")
			return !strings.Contains(a.body, "Redis is being asked")
		})
		if says := strings.Contains(a.body, "Redis refuses"); says {
			require.Contains(t, a.body, "docs/security.md", word)
			require.Contains(t, a.body, "Nothing is known yet.", word)
			require.NotContains(t, a.body, "No answer", word)
			require.NotContains(t, a.body, "No locks that", word)
			require.NotContains(t, a.body, "0 locks", word)
			require.NotEqual(t, "nothing", word, a.body)
		} else {
			require.ElementsMatch(t, []string{"plain", "rw"}, rowsOf(a), word)
		}
		a = get(t, page, "/lock?name=plain")
		if a.StatusCode != http.StatusOK {
			require.Contains(t, a.body, "docs/security.md", word)
			require.NotContains(t, a.body, "No answer", word)
		}
		page.Close()
		require.NoError(t, user.Close())
	}
}

// TestRefusedListStaysRefused: rows that Redis shows do not hide that it refuses the list.
func TestRefusedListStaysRefused(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	require.NoError(t, rdb.HSet(t.Context(), "a", owner, 1).Err())
	srv.Command(t, "ACL", "SETUSER", "watcher", "on", ">secret", "+@all", "-scan", "~*")
	user := srv.Client(t, func(o *redis.Options) { o.Username, o.Password = "watcher", "secret" })
	page := newPage(t, user, quick(holdfastweb.Options{}))
	url := served(t, page).URL
	one := watch(t, url+"/events?name=a")
	one.hears("the lock", func(u update) bool { return strings.Contains(u.Body, "Held by") })
	require.NoError(t, rdb.HSet(t.Context(), "a", owner, 2).Err())
	one.hears("the lock again", func(u update) bool { return strings.Contains(u.Body, ">2<") })
	require.Contains(t, get(t, page, "/").body, "Redis refuses")
}

// TestSilentIsNotEmpty: of a server that takes its time for the first answer, nobody says that it has no locks.
func TestSilentIsNotEmpty(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t, func(o *redis.Options) { o.ReadTimeout = 2 * patience })
	held(t, rdb, "a")
	page := newPage(t, rdb, quick(holdfastweb.Options{}))
	url := served(t, page).URL
	srv.Pause()
	defer srv.Resume()
	v := watch(t, url+"/events")
	empty := func(u update) {
		require.NotContains(t, u.Head, "No locks")
		require.NotContains(t, u.Head, "0 locks")
	}
	v.hears("that it is silent", func(u update) bool { empty(u); return strings.Contains(u.Head, "has owed an answer") })
	srv.Resume()
	v.hears("the lock", func(u update) bool { empty(u); return u.has(">a</a>") })
}
