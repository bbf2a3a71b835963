package lua_test

import (
	"bufio"
	"context"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// huge are announcements of more than a hundred thousand elements or bytes. go-redis makes room for
// what is announced before it arrives, so a server can make it use any amount of memory. That is
// not this library's to prevent, and the fuzzer would find nothing else.
var huge = regexp.MustCompile(`[0-9]{6,}`)

// FuzzReply: whatever bytes come back for a script, through go-redis, there is an error or a reply
// of the promised shape: a list that begins with an integer, 1, or a token. There is no panic and no hang, also
// where the reply is decoded as that of any script.
func FuzzReply(f *testing.F) {
	for _, reply := range []string{
		"", ":1\r\n", "*1\r\n:1\r\n", "*2\r\n:1\r\n$4\r\n1234\r\n", "*2\r\n:0\r\n:-1\r\n", "*0\r\n", "*-1\r\n", "$-1\r\n", "_\r\n",
		"-OOM command not allowed\r\n", "-NOSCRIPT No matching script\r\n", "*1\r\n$1\r\n1\r\n", "*2\r\n:1\r\n",
		"%1\r\n:1\r\n:2\r\n", "*2\r\n:1\r\n*1\r\n:1\r\n", "~1\r\n:1\r\n", ">2\r\n+invalidate\r\n*0\r\n", "*1\r\n:9223372036854775808\r\n",
		"*1\r\n,1.5\r\n", "*1\r\n#t\r\n", "*1\r\n(12\r\n", "*1\r\n_\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "*1\r\n!5\r\nERR x\r\n",
		"=7\r\ntxt:abc\r\n", "*-5\r\n", "$-5\r\n", "|1\r\n+a\r\n+b\r\n*1\r\n:1\r\n", "*3\r\n:0\r\n:1000\r\n:-1\r\n",
		"*4\r\n:0\r\n:1000\r\n$0\r\n\r\n:-2\r\n", "*3\r\n:0\r\n:-1\r\n:9223372036854775807\r\n",
		"*6\r\n:1\r\n$5\r\nwrite\r\n:-1\r\n$1\r\n7\r\n:2\r\n$1\r\no\r\n", "*6\r\n:1\r\n:3\r\n:-1\r\n:2\r\n$1\r\np\r\n:5\r\n",
		"$3\r\n123\r\n", "+123\r\n", "+OK\r\n", ":2\r\n", ":-1\r\n",
	} {
		f.Add([]byte(reply))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if huge.Match(bytes) {
			return
		}
		rdb := answering(bytes)
		defer rdb.Close()
		call := lua.Renew.Call("name", "token", "owner", 1000, 2000)
		reply, err := lua.Run(t.Context(), rdb, call)
		results := lua.RunAll(t.Context(), rdb, []lua.Call{call})
		if len(results) != 1 {
			t.Fatalf("%d results for one call", len(results))
		}
		for _, r := range append(results, lua.Result{Reply: reply, Err: err}) {
			decodeAll(r.Reply)
			switch begins := listOf.Match(bytes) || alone.Match(bytes); {
			case r.Err != nil:
				_ = lua.IsError(r.Err, "OOM")
			case !begins:
				t.Fatalf("%q was taken for a reply: %+v", bytes, r.Reply)
			}
		}
	})
}

// decodeAll decodes a reply as that of each script.
func decodeAll(r lua.Reply) {
	_, _, _, _ = r.Unannounced(), r.LateTime(), r.Grant(), r.Pass()
	_, _, _ = r.Refusal().Fields(), r.QueueRefusal().Fields(), r.RwRefusal().Fields()
	_, _, _, _, _ = r.State(), r.Taken(), r.Force(), r.Fence(), r.Poll()
	_, _, _, _, _, _ = r.SemState(), r.RwState(), r.Vote(), r.Leader(), r.Latch(), r.LatchLook()
}

// listOf is how the bytes of a reply of the promised shape begin: an array, a set or a push, behind which there is an integer;
// an attribute may stand before each, and pushes of other kinds are skipped.
var listOf = regexp.MustCompile(`(?s)(\*|~|>)\+?[0-9]+\r\n.*:[+-]?[0-9]+\r\n`)

// alone are the bytes of a reply that is no list.
var alone = regexp.MustCompile(`:\+?0*1\r\n|\+[0-9]+\r\n|\$\+?[0-9]+\r\n[0-9]+|=\+?[0-9]+\r\ntxt:[0-9]+\r\n`)

// answering is a go-redis client whose server answers the greeting, then each script with these bytes, and hangs up.
func answering(bytes []byte) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ReadTimeout: 5 * time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go serve(theirs, bytes)
			return ours, nil
		},
	})
}

// serve ends when the script was answered or the client hangs up.
func serve(conn net.Conn, bytes []byte) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		args, _, err := resp.ReadRequest(in)
		switch {
		case err != nil:
			return
		case strings.EqualFold(args[0], "hello"):
			if _, err := conn.Write([]byte("-ERR unknown command 'HELLO'\r\n")); err != nil {
				return
			}
		default:
			_, _ = conn.Write(bytes)
			return
		}
	}
}

// TestErrorsOfRun: Run returns what go-redis returns, and the functions of this package say what it is.
func TestErrorsOfRun(t *testing.T) {
	srv := redistest.Shared(t)
	call := func(rdb *redis.Client) error {
		_, err := lua.Run(t.Context(), rdb, lua.Release.Call(t.Name(), "channel", "owner", "publish"))
		return err
	}
	var reply redis.Error

	wrong := call(redistest.NewClient(t, srv.Addr(), func(o *redis.Options) { o.Username, o.Password = "nobody", "wrong" }))
	require.ErrorAs(t, wrong, &reply)
	require.Equal(t, lua.AuthWrong, lua.AuthProblemOf(wrong))

	closed := redistest.NewClient(t, srv.Addr())
	require.NoError(t, closed.Close())
	require.ErrorIs(t, call(closed), redis.ErrClosed)

	replica := redistest.Start(t)
	rdb := replica.Client(t)
	require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	refused := call(rdb)
	require.ErrorAs(t, refused, &reply)
	require.True(t, lua.IsError(refused, "READONLY"), "%v", refused)
}
