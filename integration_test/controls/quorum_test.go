package controls_test

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// Votes that are of no use. (What a master that has forgotten its votes does has its controls in
// package redlock.)
var quorumDefences = []proof{
	{
		name: "votes are given back", fault: "three ask five masters at once, and get two, two and one",
		off: &defence.Withdraw,
		try: func(l *lab) string { return l.split([]int{0, 1}, []int{2, 3}, []int{4}) },
	},
}

// split has contenders ask for a lock at once, each of which reaches its own masters first and the
// others only when those have voted. No lease ends in the life of a test, so they have to give way.
// The promise is broken if nobody gets the lock.
func (l *lab) split(shares ...[]int) (broken string) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	defer cancel()
	var direct []*redis.Client
	masters := redistest.StartMasters(l, len(slices.Concat(shares...)))
	for _, m := range masters {
		direct = append(direct, m.Client(l))
		require.NoError(l, direct[len(direct)-1].ScriptLoad(ctx, lua.Vote.Text()).Err())
	}
	granted := make(chan string, len(shares))
	done := make(chan error, len(shares))
	var late []*faultproxy.Rule
	for _, own := range shares {
		var clients []*holdfast.Client
		for i, m := range masters {
			proxy := faultproxy.New(l, m.Addr())
			clients = append(clients, l.clientOn(redistest.NewClient(l, proxy.Addr(),
				func(o *redis.Options) { o.ReadTimeout = patience }), nil))
			if !slices.Contains(own, i) {
				late = append(late, proxy.DelayRequest(faultproxy.Script(lua.Vote.Hash()), 1, time.Hour))
			}
		}
		go func() {
			h, err := redlock.New(clients, name, holdfast.Lease(time.Hour), redlock.MasterTimeout(patience)).Lock(ctx)
			if err == nil {
				granted <- h.Owner()
				err = h.Unlock(ctx)
			}
			done <- err
		}()
	}
	voted := func() (owners []string) {
		for _, rdb := range direct {
			owners = append(owners, rdb.HKeys(context.WithoutCancel(ctx), name).Val()...)
		}
		return owners
	}
	require.True(l, l.within(patience, func() bool { return len(voted()) == len(masters) }), "each has its share")
	first := voted()
	for n, own := range shares {
		for _, i := range own {
			require.Equal(l, first[own[0]], first[i], "share %d", n)
		}
	}
	for _, r := range late {
		<-r.Fired()
		r.Release()
	}
	stuck := func() bool { return slices.Equal(first, voted()) }
	if !l.comes(func() bool { return len(granted) > 0 || !stuck() }) {
		broken = "nobody gives way"
		cancel()
	}
	for range shares {
		if err := <-done; broken == "" {
			require.NoError(l, err)
		}
	}
	return broken
}
