package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// lateEnv makes the test binary a process that locks, is stopped for longer than its lease, and
// goes on writing as if nothing had happened: the address of its server.
const lateEnv = "HOLDFAST_TEST_LATE_WRITER"

// fenced is a resource that keeps the greatest token it has seen, and refuses a smaller one.
var fenced = redis.NewScript(`
	if tonumber(redis.call('HGET', KEYS[1], 'token') or 0) > tonumber(ARGV[1]) then return 0 end
	redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
	return 1`)

// writeLate is what that process does. It prints its token, waits for a word, and writes.
func writeLate(addr string) error {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	c, err := holdfast.New(rdb, &holdfast.Options{Lease: time.Second})
	if err != nil {
		return err
	}
	h, err := rlock.New(c, "paused").Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println(h.Token())
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	accepted, err := fenced.Run(ctx, rdb, []string{"store:fenced"}, h.Token(), "late").Int()
	if err != nil {
		return err
	}
	if err := rdb.HSet(ctx, "store:plain", "value", "late").Err(); err != nil {
		return err
	}
	<-h.Context().Done()
	fmt.Println(accepted, errors.Is(context.Cause(h.Context()), holdfast.ErrLost),
		errors.Is(h.Unlock(ctx), holdfast.ErrLost))
	return c.Close(ctx)
}

// TestPausedBeyondItsLease: a process is stopped while it holds the lock, another one gets it and
// writes, and the first one goes on and writes too. A store that does not look at tokens takes the
// late write, which is the weakness of every lease; one that does refuses it. The late one is told
// of its loss when it looks.
func TestPausedBeyondItsLease(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	ctx := t.Context()
	late, in, lines := startProcess(t, lateEnv, srv.Addr())
	require.True(t, lines.Scan())
	old, err := strconv.ParseUint(lines.Text(), 10, 64)
	require.NoError(t, err)

	require.NoError(t, late.Process.Signal(redistest.Halt))
	h := mustLock(t, rlock.New(newClient(t, rdb, nil), "paused"))
	require.Greater(t, h.Token(), old)
	accepted, err := fenced.Run(ctx, rdb, []string{"store:fenced"}, h.Token(), "in time").Int()
	require.NoError(t, err)
	require.Equal(t, 1, accepted)
	require.NoError(t, rdb.HSet(ctx, "store:plain", "value", "in time").Err())

	require.NoError(t, late.Process.Signal(redistest.GoOn))
	_, err = io.WriteString(in, "go on\n")
	require.NoError(t, err)
	require.True(t, lines.Scan())
	require.Equal(t, "0 true true", lines.Text(), "refused, told of the loss, and at Unlock too")
	require.NoError(t, late.Wait())
	require.Equal(t, "in time", rdb.HGet(ctx, "store:fenced", "value").Val())
	require.Equal(t, "late", rdb.HGet(ctx, "store:plain", "value").Val(),
		"the control: without the token the late write stands")
	require.NoError(t, h.Unlock(ctx), "the one in time has held it all along")
}
