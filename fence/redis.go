package fence

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lua"
)

// maxArgs is how many arguments a command may have: Lua's stack has room for 8000.
const maxArgs = 7000

// Redis guards writes to keys of a Redis: a single server, a setup with Sentinel, or a cluster. The
// locks may be in another Redis. Make one with [NewRedis]; it is immutable.
//
// The last token of a key is in a key of its own, "holdfast_fence:{key}" ("holdfast_fence:" and the
// key if the key has a hash tag). This key has no time to live, because nobody knows how late a
// late writer is. It must survive whatever the guarded key survives. Delete it when the lock will
// never be used again.
type Redis struct{ rdb redis.UniversalClient }

// NewRedis makes a guard on rdb, which stays the caller's.
func NewRedis(rdb redis.UniversalClient) *Redis { return &Redis{rdb} }

// Do runs a command whose first argument is the key, as in Do(ctx, "stock:7", "HSET", "count", 3),
// unless the key has seen a greater token than that of the context's hold. One script checks the
// token and runs the command. Do does not guard other keys that the command writes.
//
// Do returns the command's reply as a script sees it: status and bulk replies are strings, arrays
// and maps are []any, integers are int64 (rounded from 2^53 on), and nil is nil.
//
// Errors: [*StaleError]; [ErrNoToken]; [ErrSeveralLocks]; an error that names a bad argument and
// the remedy, before anything is sent; otherwise the error of the command or of the network, wrapped,
// with the cause of a context that has ended. After a [redis.Error] the command has done nothing.
// After any other error the command may have run. Do repeats nothing: repeat the command if that is
// harmless.
func (g *Redis) Do(ctx context.Context, key, command string, args ...any) (reply any, err error) {
	token, err := only(ctx)
	if err != nil {
		return nil, err
	}
	return g.DoToken(ctx, token, key, command, args...)
}

// DoToken is Do for a token that does not come from the context.
func (g *Redis) DoToken(ctx context.Context, token uint64, key, command string, args ...any) (reply any, err error) {
	if err := g.check(token, key, command, args); err != nil {
		return nil, err
	}
	call := lua.Fence.Call(append([]any{keys.Fence(key), key, strconv.FormatUint(token, 10), command}, args...)...)
	r, err := lua.Run(ctx, g.rdb, call)
	switch {
	case lua.IsDenied(err):
		return nil, fmt.Errorf("fence: %s %s: this user lacks a permission; docs/security.md has the rule that it needs: %w", printable.Name(command),
			printable.Quote(key), printable.Error(err))
	case err != nil:
		return nil, fmt.Errorf("fence: %s %s: %w", printable.Name(command), printable.Quote(key), because(ctx, err))
	case r.Status != lua.Denied:
		return r.Fence().Result, nil
	}
	last, err := strconv.ParseUint(r.Fence().Last, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("fence: %s holds something that is not a token: %w", printable.Name(keys.Fence(key)), printable.Error(err))
	}
	return nil, &StaleError{key, token, last}
}

// check finds bad arguments without asking the server.
func (g *Redis) check(token uint64, key, command string, args []any) error {
	if g == nil || g.rdb == nil {
		return errors.New("fence: the guard has no Redis client; make it with fence.NewRedis")
	}
	if key == "" {
		return errors.New("fence: key is empty; name the key that is written")
	}
	if err := keys.OneSlot("key", key); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	switch {
	case command == "":
		return errors.New("fence: command is empty; name one that takes the key first, such as SET")
	case token == 0:
		return errZero
	case len(args) > maxArgs:
		return fmt.Errorf("fence: %s %s has %d arguments, and a script can pass on %d; split it into several",
			printable.Name(command), printable.Quote(key), len(args), maxArgs)
	}
	return nil
}
