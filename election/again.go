package election

import (
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// Between a try that failed and the next one: refused tries rest for longer each time, because a server that
// refuses is up, and logs each of them; one that does not answer is tried once a second.
const (
	shortRest = time.Second
	longRest  = 16 * time.Second
)

// failures are those in a row of one who tries until it passes: a candidate, or an observer. The zero value is none.
type failures struct {
	kind string // of the last one
	rest time.Duration
}

// add reports whether a failure is of another kind than the one before, and how long to rest until the next try, about.
func (f *failures) add(err error) (news bool, rest time.Duration) {
	kind, refused := kindOf(err)
	if news = kind != f.kind; news || !refused {
		f.rest = shortRest
	} else {
		f.rest = min(2*f.rest, longRest)
	}
	f.kind = kind
	return news, remote.Spread(f.rest)
}

// kindOf is what people distinguish failures by, and whether the server answered with it. Their texts differ each time:
// how much of a lease is left is in them.
func kindOf(err error) (kind string, refused bool) {
	for _, of := range []error{errs.ErrUnavailable, errs.ErrLost, errs.ErrNotAcquired, errs.ErrNotReplicated, errs.ErrUncertain} {
		if errors.Is(err, of) {
			return of.Error(), false
		}
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		kind, _, _ = strings.Cut(reply.Error(), " ")
		return kind, true
	}
	return "other", true
}

// passes reports whether another try may succeed where one has failed. A missing permission may be given, and a wrong
// password be mended, at the server: whoever stopped trying would never be a candidate again.
func passes(err error) bool {
	return !errors.Is(err, errs.ErrInvalid) && !errors.Is(err, errs.ErrClosed)
}
