package lua

import (
	"context"
	"fmt"
)

// RunWait is [Run] with a command behind it that waits for replicas, WAIT or WAITAOF, and returns
// how many have what the call wrote. The two are one pipeline, since only that is sure to go over
// one connection: on another one such a command counts other writes, or none. An error may be of
// either.
//
// The call has to write something each time it is [Done]. Since 7.2 a server waits for the last
// write of the connection, and without one it counts every replica.
//
// "Not held" counts only without an error too: a replica says that of what it does not have yet,
// and refuses to wait.
//
// The script is sent as text, which every server knows: behind one that it has forgotten, it would
// wait all the same.
func RunWait(ctx context.Context, rdb Pipeliner, c Call, wait ...any) (Reply, int64, error) {
	script, waited := newCommand(ctx, c.withText()), newCommand(ctx, wait)
	pipe := rdb.Pipeline()
	_ = pipe.BatchProcess(ctx, script, waited)
	if err := exec(ctx, pipe); err != nil {
		return Reply{}, 0, err
	}
	reply, err := parse(script.Result())
	if err != nil {
		return reply, 0, err
	}
	n, err := counted(waited.Result())
	return reply, n, err
}

// counted is the number of replicas in the reply of WAIT, which is a number, or of WAITAOF, where
// it stands behind that of the server itself.
func counted(v any, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	if list, ok := v.([]any); ok && len(list) == 2 {
		v = list[1]
	}
	n, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("the server replied %T %.100v when asked how many replicas have a write", v, v)
	}
	return n, nil
}
