package memory

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// All is a lock of several locks: who holds it holds all of them. It is the first user of
// [engine.Join].
type All struct {
	name    string
	lockers []holdfast.Locker
}

var _ holdfast.Locker = (*All)(nil)

// NewAll makes the lock of some locks. They are taken in the order of their names.
func NewAll(lockers ...holdfast.Locker) *All {
	sorted := slices.SortedFunc(slices.Values(lockers), func(a, b holdfast.Locker) int {
		return strings.Compare(a.Name(), b.Name())
	})
	names := make([]string, len(sorted))
	for i, l := range sorted {
		names[i] = l.Name()
	}
	return &All{strings.Join(names, " "), sorted}
}

// Name is the names of all.
func (a *All) Name() string { return a.name }

// Lock is as every Locker has it.
func (a *All) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return a.take(ctx, holdfast.Locker.Lock, opts)
}

// TryLock is as every Locker has it.
func (a *All) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return a.take(ctx, holdfast.Locker.TryLock, opts)
}

type take = func(holdfast.Locker, context.Context, ...holdfast.Option) (*holdfast.Hold, error)

// take takes all, each under the context of the one before, or gives back those that it has.
func (a *All) take(ctx context.Context, take take, opts []holdfast.Option) (*holdfast.Hold, error) {
	var holds []*engine.Hold
	for under := ctx; len(holds) < len(a.lockers); under = holds[len(holds)-1].Context() {
		h, err := take(a.lockers[len(holds)], under, opts...)
		if err != nil {
			for _, h := range slices.Backward(holds) {
				err = errors.Join(err, h.Unlock(ctx))
			}
			return nil, err
		}
		holds = append(holds, (*engine.Hold)(h))
	}
	return (*holdfast.Hold)(engine.Join(kindOfAll, a.name, holds...)), nil
}

const kindOfAll = "all"

// Join makes one hold of several that somebody else has taken.
func Join(holds ...*holdfast.Hold) *holdfast.Hold {
	var all []*engine.Hold
	for _, h := range holds {
		all = append(all, (*engine.Hold)(h))
	}
	return (*holdfast.Hold)(engine.Join(kindOfAll, "joined", all...))
}
