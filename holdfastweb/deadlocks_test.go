package holdfastweb_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// caller has one lock, and waits for another one until the test ends.
type caller struct {
	*holdfast.Client
	*holdfast.Hold
}

func newCaller(t *testing.T, srv *redistest.Server, label, has string) caller {
	c := kindtest.NewClient(t, srv.Client(t), &holdfast.Options{Label: label, LongWait: 80 * time.Millisecond})
	return caller{c, kindtest.Lock(t, rlock.New(c, has))}
}

func (c caller) waitsFor(t *testing.T, name string) {
	ctx, cancel := context.WithCancel(holdfast.WithOwner(c.Hold.Context()))
	wait := kindtest.Begin(ctx, t, rlock.New(c.Client, name).Lock)
	t.Cleanup(func() { cancel(); _, _ = wait.Result() })
}

// TestDeadlocks: circles of waits are above the list, live or not, with links to their locks, until they have ended. A page that is
// not about all names of a circle does not show it; the control is a circle that it may show.
func TestDeadlocks(t *testing.T) {
	srv := redistest.Start(t)
	page := newPage(t, srv.Client(t), quick(holdfastweb.Options{}))
	narrow := newPage(t, srv.Client(t), quick(holdfastweb.Options{Match: "orders:*"}))
	v := watch(t, served(t, page).URL+"/events")
	v.hears("that there are no locks", func(u update) bool { return u.Head != "" })
	require.NotContains(t, get(t, page, "/").body, "eadlock")

	const orders, stock = "orders:1", "<stock> & more"
	one, two, alone := newCaller(t, srv, "<b>api</b>", orders), newCaller(t, srv, "worker", stock), newCaller(t, srv, "alone", "orders:2")
	one.waitsFor(t, stock)
	two.waitsFor(t, orders)
	alone.waitsFor(t, "orders:2")
	var a answer
	eventually(t, "the circles are shown", func() bool {
		a = get(t, page, "/")
		return strings.Contains(a.body, "Deadlock: 2 callers") && strings.Contains(a.body, "Deadlock: a caller")
	})
	for _, says := range []string{
		"Deadlock: 2 callers wait for each other", "Deadlock: a caller waits for what it has itself", "&lt;b&gt;api&lt;/b&gt;",
		`<a href="lock?name=orders%3A1">orders:1</a>`, `<a href="lock?name=%3Cstock%3E&#43;%26&#43;more">&lt;stock&gt; &amp; more</a>`, "which worker has",
		one.Owner()[:8] + ":", two.Owner()[:8] + ":",
	} {
		require.Contains(t, a.body, says)
	}
	require.Regexp(t, `has waited <time data-since="\d+">\d+s</time> for`, a.body)
	require.Less(t, strings.LastIndex(a.body, "Deadlock"), strings.Index(a.body, `<table id="locks"`))
	v.hears("the circle", func(u update) bool { return strings.Contains(u.Head, "Deadlock: 2 callers") })
	eventually(t, "the circle that it may show", func() bool { return strings.Contains(get(t, narrow, "/").body, "Deadlock: a caller") })
	require.NotContains(t, get(t, narrow, "/").body, "Deadlock: 2 callers")
	require.NotContains(t, get(t, narrow, "/").body, "stock")

	require.NoError(t, one.Hold.Unlock(t.Context()))
	eventually(t, "it is not shown any more", func() bool { return !strings.Contains(get(t, page, "/").body, "Deadlock: 2 callers") })
	v.hears("that it has ended", func(u update) bool { return u.Head != "" && !strings.Contains(u.Head, "Deadlock: 2 callers") })
}

// TestDeadlocksAfterGoexit: a hook ends the goroutines that search for deadlocks and list the locks. Later searches and lists follow.
func TestDeadlocksAfterGoexit(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	var ended atomic.Int64
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		if cmds[0].Name() == "scan" && ended.Add(1) <= 4 {
			runtime.Goexit()
		}
		return send()
	}))
	alone := newCaller(t, srv, "alone", "orders:2")
	alone.waitsFor(t, "orders:2")
	page := newPage(t, rdb, quick(holdfastweb.Options{}))
	v := watch(t, served(t, page).URL+"/events")
	v.hears("the list and the circle", func(u update) bool {
		return strings.Contains(u.Head, "Deadlock: a caller") && strings.Contains(get(t, page, "/").body, ">orders:2</a>")
	})
	require.Greater(t, ended.Load(), int64(4))
}

// TestDeadlocksRefused: where Redis does not let the page look, the page does not look as if there were none.
func TestDeadlocksRefused(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	held(t, rdb, "a")
	require.NoError(t, rdb.Set(t.Context(), keys.Waits("11111111-2222-4333-8444-555555555555"), "{}", time.Hour).Err())
	srv.Command(t, "ACL", "SETUSER", "watcher", "on", ">secret", "+@all", "-get", "~*", "&*")
	user := srv.Client(t, func(o *redis.Options) { o.Username, o.Password = "watcher", "secret" })
	page := newPage(t, user, quick(holdfastweb.Options{}))
	eventually(t, "that it is refused", func() bool {
		return strings.Contains(get(t, page, "/").body, "Deadlocks are not shown, because Redis refuses")
	})
	a := get(t, page, "/")
	require.Equal(t, []string{"a"}, rowsOf(a))
	require.Contains(t, a.body, "docs/security.md")
	require.NotContains(t, get(t, newPage(t, rdb, quick(holdfastweb.Options{})), "/").body, "Deadlocks", "control")
}
