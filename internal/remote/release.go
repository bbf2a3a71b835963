package remote

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
)

// takenError says that others had a lock before a repeated release came, or may have had it.
type takenError struct{ how string }

func (e *takenError) Error() string {
	return "the answer to the release was lost, and when it was repeated " + e.how +
		": the lock may have been lost before it was released"
}

// Outage is for [IsOutage]: the server has answered.
func (e *takenError) Outage() bool { return false }

// IsTaken reports whether an error is that of [Session.Taken]. Then the owner does not have the
// lock any more, and only how its hold ended is not known.
func IsTaken(err error) bool {
	var taken *takenError
	return errors.As(err, &taken)
}

// Taken asks a server about a release that got no answer and did not find the owner when it was
// repeated. Either the first attempt released the lock, or the lock was lost before. If another
// owner has had the lock since, nobody can tell which, because it may have got the lock either way.
// Then Taken returns an error. It returns nil if the owner's last token is still the last one. (A
// token that is gone says nothing. Rejected: to believe the first attempt. Then a lock that was
// lost while others used it looks as if it had been held to the end.)
//
// shared says that several owners have the lock at once. Then only the tokens count, also those of
// permits.
func (s *Session) Taken(ctx context.Context, at *Server, name, owner string, own uint64, shared bool,
	budget SharedBudget) error {
	k := keys.For(name)
	call := lua.Taken.Call(k.Token, k.Name, owner)
	if shared {
		call = lua.TakenShared.Call(k.Token, owner)
	}
	o := s.Detached(ctx, at, func(bool) lua.Call { return call }, budget)
	last := o.Reply.Taken()
	switch {
	case o.Err != nil:
		return o.Err
	case last.Others:
		return &takenError{"another owner had the lock"}
	case last.Token != strconv.FormatUint(own, 10):
		return &takenError{fmt.Sprintf("the last token was %.20q, and not %d", last.Token, own)}
	}
	return nil
}

// IsOverwritten reports whether an error of a release, a renewal or a count says that the lock's
// hash is gone and something else is at its key. It is so only for the kind beside which other
// libraries set strings. The same scripts of other kinds ask for more keys than the hash, and the
// error does not say which key it is about.
func IsOverwritten(l kind.Lock, err error) bool {
	if err == nil {
		return false
	}
	_, alone := l.(kind.Neighbour)
	return alone && lua.IsError(err, "WRONGTYPE")
}

// undoBatch is several undos of one lock that one script does.
type undoBatch []*undo

// maxUndoBatch is the most releases of one lock in one script, so that the script takes little
// time.
const maxUndoBatch = 100

// together makes batches of undos. Those of a lock with a queue share a script. So callers who
// leave at once cost the server little more than one of them does, and those who still wait do not
// wait for each release.
func together(due []*undo) (batches []undoBatch) {
	type name struct{ kind, lock string }
	open := make(map[name]int)
	for _, one := range due {
		of := name{one.lock.Kind(), one.lock.Name()}
		_, queues := one.lock.(kind.Queuer)
		if i, ok := open[of]; ok && queues && len(batches[i]) < maxUndoBatch {
			batches[i] = append(batches[i], one)
			continue
		}
		open[of] = len(batches)
		batches = append(batches, undoBatch{one})
	}
	return batches
}

func (b undoBatch) call(publish string) lua.Call {
	if len(b) == 1 {
		return b[0].lock.Release(b[0].id, publish)
	}
	others := make([]string, len(b)-1)
	for i, one := range b[1:] {
		others[i] = one.id
	}
	return b[0].lock.(kind.Queuer).ReleaseRun(b[0].id, others, publish)
}
