package holdfastweb_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

func anybody(*http.Request, string) (string, bool) { return "alice", true }

// endOf is the address that ends a hold of one master.
func endOf(h *holdfast.Hold, name string, token uint64) string {
	q := url.Values{"name": {name}, "owner": {h.Owner()}, "part": {fmt.Sprintf("0:%d", token)}}
	return "/end?" + q.Encode()
}

// standing reports whether somebody has a lock.
func standing(t *testing.T, rdb *redis.Client, name string) bool {
	n, err := rdb.Exists(context.Background(), name).Result()
	require.NoError(t, err)
	return n == 1
}

// TestEnd: only a POST of the page's own, by a permitted user, for the grant shown ends a hold. Any other is told why, in vain.
func TestEnd(t *testing.T) {
	srv := redistest.Shared(t)
	rdb, log, name := srv.Client(t), &kindtest.Log{}, t.Name()
	client := kindtest.NewClient(t, srv.Client(t), nil)
	h := kindtest.Lock(t, rlock.New(client, name))
	right := endOf(h, name, h.Token())
	readOnly := newPage(t, rdb, quick(holdfastweb.Options{Logger: log.Logger()}))
	strict := newPage(t, rdb, quick(holdfastweb.Options{Logger: log.Logger(), Permit: func(*http.Request, string) (string, bool) { return "mallory", false }}))
	narrow := newPage(t, rdb, quick(holdfastweb.Options{Match: "other:*", Permit: anybody}))
	page := newPage(t, rdb, quick(holdfastweb.Options{Logger: log.Logger(), Permit: anybody, TrustedOrigins: []string{"https://ops.example"}}))

	for what, try := range map[string]struct {
		page   *holdfastweb.Handler
		method string
		target string
		header []string
		status int
		says   string
	}{
		"read-only":          {readOnly, "POST", right, nil, 403, "lets nobody end holds"},
		"read-only question": {readOnly, "GET", right, nil, 403, "lets nobody end holds"},
		"not permitted":      {strict, "POST", right, nil, 403, "You may not end holds"},
		"no question either": {strict, "GET", right, nil, 403, "You may not end holds"},
		"another's name":     {narrow, "POST", right, nil, 404, "only names that match other:*"},
		"another site":       {page, "POST", right, []string{"Sec-Fetch-Site", "cross-site"}, 403, "another site"},
		"a sister site":      {page, "POST", right, []string{"Sec-Fetch-Site", "same-site"}, 403, "another site"},
		"an old browser":     {page, "POST", right, []string{"Origin", "https://evil.example"}, 403, "another site"},
		"no origin":          {page, "POST", right, []string{"Origin", "null"}, 403, "another site"},
		"a question":         {page, "GET", right, nil, 200, "End this hold?"},
		"only its head":      {page, "HEAD", right, nil, 200, ""},
		"another method":     {page, "DELETE", right, nil, 405, "does not take DELETE"},
		"stale token":        {page, "POST", endOf(h, name, h.Token()-1), nil, 409, "Nothing was changed"},
		"stale question":     {page, "GET", endOf(h, name, h.Token()-1), nil, 409, "Nothing was changed"},
		"no owner":           {page, "POST", "/end?name=" + name + "&part=0", nil, 400, "does not say which hold"},
		"no part":            {page, "POST", "/end?name=" + name + "&owner=x", nil, 400, "does not say which hold"},
		"another master":     {page, "POST", "/end?name=" + name + "&owner=x&part=1", nil, 400, "does not say which hold"},
		"token 0":            {page, "POST", "/end?name=" + name + "&owner=x&part=0:0", nil, 400, "does not say which hold"},
		"another owner":      {page, "POST", "/end?name=" + name + "&owner=x&part=0", nil, 409, "Nothing was changed"},
		"no name":            {page, "POST", "/end?name=a%7Db&owner=x&part=0", nil, 404, "Nothing was changed"},
	} {
		a := ask(t, try.page, try.method, try.target, try.header...)
		require.Equal(t, try.status, a.StatusCode, what)
		require.Contains(t, a.body, try.says, what)
		require.True(t, standing(t, rdb, name), what)
	}
	require.Contains(t, log.String(), "who=mallory")
	require.Contains(t, log.String(), "origin=https://evil.example")
	require.NotContains(t, log.String(), "a hold was ended")

	// The control: what is refused above is refused for what it lacks.
	a := ask(t, page, "POST", right, "Sec-Fetch-Site", "same-origin")
	require.Equal(t, http.StatusOK, a.StatusCode, a.body)
	require.Contains(t, a.body, "The hold was ended")
	require.False(t, standing(t, rdb, name))
	require.Regexp(t, `a hold was ended" who=alice from=\S+ lock=TestEnd owner=\S+ token=\d+`, log.String())
	a = ask(t, page, "POST", right)
	require.Equal(t, http.StatusConflict, a.StatusCode, "nobody has it any more")

	h = kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), name)) // the first one does not know yet
	a = ask(t, page, "POST", endOf(h, name, h.Token()), "Origin", "https://ops.example", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusOK, a.StatusCode, "a trusted origin")
}

// TestEndOfOneReader: the other one reads on.
func TestEndOfOneReader(t *testing.T) {
	srv := redistest.Shared(t)
	client, other := kindtest.NewClient(t, srv.Client(t), nil), kindtest.NewClient(t, srv.Client(t), nil)
	one := kindtest.Lock(t, rwlock.New(client, t.Name()).RLocker())
	two := kindtest.Lock(t, rwlock.New(other, t.Name()).RLocker())
	page := newPage(t, srv.Client(t), quick(holdfastweb.Options{Permit: anybody}))
	body := get(t, page, "/lock?name="+t.Name()).body
	links := regexp.MustCompile(`href="(end\?[^"]*)"`).FindAllStringSubmatch(body, -1)
	require.Len(t, links, 2)
	for _, c := range []*holdfast.Client{client, other} {
		all := "/?match=" + c.ID()
		require.Contains(t, body, `<a href=".`+all+`"`)
		require.Equal(t, []string{t.Name()}, rowsOf(get(t, page, all)), "what one client has")
	}
	a := ask(t, page, "POST", "/end?"+url.Values{"name": {t.Name()}, "owner": {one.Owner()}, "part": {"0"}}.Encode())
	require.Equal(t, http.StatusOK, a.StatusCode, a.body)
	body = get(t, page, "/lock?name="+t.Name()).body
	require.NotContains(t, body, one.Owner())
	require.Contains(t, body, two.Owner())
}

// TestSeveralMasters: each one's part is listed, and an owner's is ended everywhere.
func TestSeveralMasters(t *testing.T) {
	one, two := redistest.Start(t), redistest.Start(t)
	for _, srv := range []*redistest.Server{one, two} {
		require.NoError(t, srv.Client(t).HSet(t.Context(), "ledger", owner, 1).Err())
		require.NoError(t, srv.Client(t).Set(t.Context(), "redisson_lock_token:{ledger}", 5000+len(srv.Addr()), 0).Err())
	}
	page := newPage(t, one.Client(t), quick(holdfastweb.Options{Permit: anybody, Masters: []redis.UniversalClient{two.Client(t)}}))
	a := get(t, page, "/")
	require.Equal(t, []string{"ledger", "ledger"}, rowsOf(a))
	require.Contains(t, a.body, two.Addr())
	body := get(t, page, "/lock?name=ledger").body
	require.Contains(t, body, one.Addr())
	link := regexp.MustCompile(`href="(end\?[^"]*)"`).FindStringSubmatch(body)[1]
	target := "/" + regexp.MustCompile(`&amp;`).ReplaceAllString(link, "&")
	require.Contains(t, get(t, page, target).body, two.Addr())
	a = ask(t, page, "POST", target)
	require.Equal(t, http.StatusOK, a.StatusCode, a.body)
	require.False(t, standing(t, one.Client(t), "ledger") || standing(t, two.Client(t), "ledger"))

	two.Kill()
	eventually(t, "the page says which one is silent", func() bool {
		return regexp.MustCompile("No answer from " + two.Addr() + " since").MatchString(get(t, page, "/").body)
	})
	two.Restart()
}
