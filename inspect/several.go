package inspect

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// Several returns what is at each of some names, in their order. The state of each is of one moment,
// and that of all is not. Several takes one round trip for 100 names of one server, and another for the
// labels of their clients. It asks the masters of a cluster at the same time. With an error it returns
// the locks that servers have answered for; the others have no Name. A name that a server refuses to
// show, or that no lock can have, has the problem [Unreadable].
func (i *Inspector) Several(ctx context.Context, names []string) (_ []Lock, err error) {
	defer func() { err = printable.Error(err) }()
	locks := make([]Lock, len(names))
	groups, err := i.byMaster(ctx, names)
	if err != nil {
		return nil, err
	}
	errs := make(chan error, len(groups))
	for node, places := range groups { // at the same time: one that is silent does not hide what the others have
		go func() { errs <- i.fillAll(ctx, node, names, places, locks) }()
	}
	for range groups {
		if one := <-errs; one != nil {
			err = one
		}
	}
	if wrong := i.complete(ctx, locks); err == nil {
		err = wrong
	}
	return locks, err
}

// fillAll looks at all those names that one server has.
func (i *Inspector) fillAll(ctx context.Context, node *redis.Client, names []string, places []int, locks []Lock) (err error) {
	defer panics.Into(&err) // of a hook of go-redis: here nobody else would take it
	for len(places) > 0 {
		n := min(batch, len(places))
		if err := i.fill(ctx, node, names, places[:n], locks); err != nil {
			return err
		}
		places = places[n:]
	}
	return nil
}

// byMaster are the places of names, by the server that has them. What is no name of a lock is in none.
func (i *Inspector) byMaster(ctx context.Context, names []string) (map[*redis.Client][]int, error) {
	groups := make(map[*redis.Client][]int)
	for n, name := range names {
		node, ok := i.rdb.(*redis.Client)
		if !ok {
			var err error
			if node, err = i.cluster.MasterForKey(ctx, name); err != nil {
				return nil, err
			}
		}
		groups[node] = append(groups[node], n)
	}
	return groups, nil
}

// fill looks at some of the names in one round trip.
func (i *Inspector) fill(ctx context.Context, node *redis.Client, names []string, places []int, locks []Lock) error {
	var some []string
	var at []int
	for _, n := range places {
		if err := keys.Check(names[n]); err != nil {
			locks[n] = unreadable(names[n], err)
			continue
		}
		some, at = append(some, names[n]), append(at, n)
	}
	if len(some) == 0 {
		return nil
	}
	for j, a := range i.ask(ctx, node, some, i.opts.List) {
		if a.err != nil && moved(a.err) {
			a = i.query(ctx, some[j:j+1], i.opts.List)[0]
		}
		if a.err != nil && !concernsKey(a.err) {
			return a.err
		}
		if locks[at[j]] = a.lock; a.err != nil {
			locks[at[j]] = unreadable(some[j], errors.New("the server refuses to show it: "+a.err.Error()))
		}
	}
	return nil
}

func unreadable(name string, err error) Lock {
	return Lock{Name: name, Remaining: -1, Waiters: -1, Listening: -1, Problems: []Problem{{Unreadable, err.Error()}}}
}

// Matches reports whether a name fits the pattern of [Query.Match].
func Matches(pattern, name string) bool { return glob(pattern, name) }
