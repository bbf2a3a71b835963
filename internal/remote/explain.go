package remote

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lua"
)

// ErrCloseOrder is the remedy where the user has closed the go-redis client.
var ErrCloseOrder = errors.New("close the Holdfast client before the go-redis client")

// Explain adds to an error of Redis which key of the lock it concerns, and what to do. queues says
// that the lock has a queue at the server.
func Explain(err error, name string, queues bool) error {
	switch {
	case lua.IsError(err, "WRONGTYPE"):
		k, queue := keys.For(name), ""
		if queues {
			queue = fmt.Sprintf(", or %s or %s something that is no queue", printable.Name(k.Queue), printable.Name(k.Deadlines))
		}
		return errs.Both(fmt.Errorf("the key %s holds something that is not a lock, or %s something that is not a token%s; choose "+
			"another name, and if another library locks it, see docs/migrating.md", printable.Name(k.Name), printable.Name(k.Token), queue), err)
	case lua.IsError(err, "HOLDFAST the key"): // a script looked at it
		return errs.Both(errors.New("the name is the key of something else; choose another name"), err)
	// the second of long commands, since Redis 7
	case lua.IsError(err, "NOAUTH"), lua.IsError(err, "Protocol error: unauthenticated"):
		return errs.Both(errors.New("the server wants a password, and none was given; set Password, and Username if it is not the default one, in the "+
			"options of go-redis"), err)
	case lua.IsError(err, "WRONGPASS"):
		return errs.Both(errors.New("the server does not know this user with this password; check Username and Password in the options of go-redis"), err)
	case lua.IsError(err, "READONLY"):
		return errs.Both(errors.New("this server is a replica now; if it stays one, connect to its primary"), err)
	case errors.Is(err, redis.ErrClosed):
		return errs.Both(ErrCloseOrder, err)
	case lua.IsDenied(err):
		return errs.Both(errors.New("this user lacks a permission; docs/security.md has the rule that it needs, and ACL LOG "+
			"at the server says what was refused"), err)
	}
	return err
}
