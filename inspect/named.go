package inspect

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// Named tells what there is at each of some names, in their order. It is Lock for many names, in a few
// round trips where one server has them all. The names that a server refuses to show have a problem
// [Unreadable].
func (i *Inspector) Named(ctx context.Context, names ...string) ([]Lock, error) {
	for _, name := range names {
		if err := keys.Check(name); err != nil {
			return nil, err
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	locks := make([]Lock, len(names))
	for n, a := range i.look(ctx, names, i.opts.List) {
		switch {
		case a.err == nil:
			locks[n] = a.lock
		case concernsKey(a.err):
			locks[n] = unreadable(names[n], a.err)
		default:
			return nil, a.err
		}
	}
	return locks, i.complete(ctx, locks)
}

// unreadable is a lock that the server refuses to show.
func unreadable(name string, err error) Lock {
	return Lock{Name: name, Waiters: -1, Listening: -1, Problems: []Problem{{Unreadable, "the server refuses to show it: " + err.Error()}}}
}
