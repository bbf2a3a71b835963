package workload

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/history"
)

// Collect locks many names at once as one owner, some of them twice, calls hold, and unlocks what
// it has. Names are locked by a goroutine each, whose numbers begin with the actor's and which draw
// from sources of their own. It is false when the client was closed.
func Collect(ctx context.Context, cfg Config, rec *history.Recorder, client, actor int, names []string,
	source func(i int) *rand.Rand,
	hold func(context.Context),
) bool {
	owner := holdfast.WithOwner(ctx)
	rounds := make([]*round, len(names))
	each := func(do func(i int)) {
		var group sync.WaitGroup
		defer group.Wait()
		for i := range names {
			group.Go(func() { do(i) })
		}
	}
	each(func(i int) { rounds[i] = New(cfg, rec, client, actor+i, source(i)).collect(owner, names[i]) })
	hold(ctx)
	each(func(i int) {
		if r := rounds[i]; r != nil {
			r.leave(ctx)
		}
	})
	return ctx.Err() == nil
}

// collect locks a name under a context that carries an owner, perhaps twice. Nothing comes of it if
// that fails.
func (a *Actor) collect(owner context.Context, name string) *round {
	ctx, cancel := context.WithCancel(context.WithValue(owner, actorKey{}, a)) //nolint:gosec // ends with the owner's; it outlives this call
	m := a.Lock(name)
	h, plain, err := a.lock(ctx, cancel, m, name)
	if err != nil {
		cancel()
		return nil
	}
	r := a.begin(ctx, m, h, false, plain)
	if a.rng.IntN(4) == 0 {
		r.reenter()
	}
	return r
}
