package holdfastweb_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// rowsOf are the names in a list, in their order.
func rowsOf(a answer) (names []string) {
	for _, m := range regexp.MustCompile(`<tr role="row" id="r[0-9a-f]+"[^>]*><th[^>]*>(?:<a [^>]*>)?([^<]*)`).FindAllStringSubmatch(a.body, -1) {
		names = append(names, m[1])
	}
	return names
}

// TestListOfAllKinds: each kind is there with who has it and who waits, and what looks wrong.
func TestListOfAllKinds(t *testing.T) {
	srv := redistest.Start(t)
	ctx, rdb, log := t.Context(), srv.Client(t), &notes{}
	one, two := kindtest.NewClient(t, srv.Client(t), nil), kindtest.NewClient(t, srv.Client(t), nil)
	h := kindtest.Lock(t, rlock.New(one, "plain"))
	kindtest.Lock(t, fairlock.New(one, "fair"))
	kindtest.Begin(t.Context(), t, fairlock.New(two, "fair").Lock)
	for range 2 {
		kindtest.Lock(t, rwlock.New(one, "rw").RLocker())
	}
	_, err := semaphore.New(one, "permits", 5).Acquire(ctx, 2)
	require.NoError(t, err)
	_, err = election.New(one, "leader").Campaign(ctx, "host-1")
	require.NoError(t, err)
	_, err = latch.New(one, "gate").Set(ctx, 3)
	require.NoError(t, err)
	held(t, rdb, "stuck")
	require.NoError(t, rdb.Set(ctx, keys.Label(one.ID()), "web-7, build 12", time.Hour).Err())

	page := newPage(t, rdb, quick(holdfastweb.Options{Logger: log.logger(), Title: "Locks of <staging>"}))
	var a answer
	eventually(t, "the waiter is in its place", func() bool {
		a = get(t, page, "/")
		return strings.Contains(a.body, `title="wait in the queue">1<`)
	})
	require.Equal(t, http.StatusOK, a.StatusCode, log)
	require.Equal(t, "stuck", rowsOf(a)[0], "what looks wrong is the first")
	require.Equal(t, "fair", rowsOf(a)[1], "then what is waited for")
	rest := slices.DeleteFunc(rowsOf(a), func(name string) bool { return name == "gate" })
	require.ElementsMatch(t, []string{"plain", "fair", "rw", "permits", "leader", "stuck"}, rest)
	for _, says := range []string{
		"Locks of &lt;staging&gt;", `<span class="flag">no-end</span>`, "web-7, build 12", one.ID()[:8] + ":", "and 1 more", "2 permits",
		fmt.Sprint(h.Token()), `<td role="cell" class="kind" data-label="kind">election</td>`, "no end",
	} {
		require.Contains(t, a.body, says)
	}
	require.NotContains(t, a.body, two.ID(), "an owner is cut in the list")

	for name, says := range map[string][]string{
		"plain":   {one.ID(), "web-7, build 12", fmt.Sprint(h.Token()), "held for"},
		"fair":    {"Waiting", two.ID()},
		"rw":      {"<td role=\"cell\" data-label=\"to\">read</td>"},
		"permits": {"5 in all, 3 free, 2 out"},
		"leader":  {"host-1"},
		"gate":    {"to count", "<dd>3</dd>"},
		"stuck":   {"the lock has no time to live"},
		"nothing": {"There is nothing at this name"},
	} {
		a := get(t, page, "/lock?name="+name)
		require.Equal(t, http.StatusOK, a.StatusCode, name)
		for _, text := range says {
			require.Contains(t, a.body, text, name)
		}
	}
	require.Empty(t, log.String())
}
