package remote

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/lua"
)

// takenError says that others have had a lock before a repeated release came, or may have had it.
type takenError struct{ how string }

func (e *takenError) Error() string {
	return "the answer to the release was lost, and when it was repeated " + e.how +
		": the lock may have been lost before it was released"
}

// Outage is for [IsOutage]: the server has answered.
func (e *takenError) Outage() bool { return false }

// IsTaken reports whether an error is that of [Session.Taken]: the lock is not the owner's any more, and only how it
// ended is not known.
func IsTaken(err error) bool {
	var taken *takenError
	return errors.As(err, &taken)
}

// Taken asks a server about a release that got no answer and did not find the owner when it was repeated. The first
// attempt may have released the lock, or the lock was lost before. Nobody can tell, because another owner that has
// had the lock since may have got it either way. So Taken returns an error then, and nil if the owner's own token is
// still the last one. (A token that is gone says nothing. Rejected: to believe the first attempt. Then a lock that was
// lost while others used it looks as if it had been held to the end.)
//
// shared says that several owners have the lock at once. Then only the tokens count, also those of permits.
func (s *Session) Taken(ctx context.Context, at *Server, name, owner string, own uint64, shared bool) error {
	k := keys.For(name)
	call := lua.Taken.Call(k.Token, k.Name, owner)
	if shared {
		call = lua.TakenShared.Call(k.Token, owner)
	}
	o := s.Detached(ctx, at, func(bool) lua.Call { return call })
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
