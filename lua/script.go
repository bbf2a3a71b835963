package lua

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assemble"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/panics"
)

//go:embed *.lua part/*.lua
var files embed.FS

// The scripts. See the header of each file for its keys, arguments and replies. The methods of
// [Reply] decode the replies.
var (
	Acquire = load("acquire", 2)
	// HeadStart is Acquire by one who needs a head start, or has given one.
	HeadStart = load("acquire", 3)
	// AcquireBeside and HeadStartBeside are the two beside other libraries, whose locks are strings.
	AcquireBeside   = load("acquire_beside", 2)
	HeadStartBeside = load("acquire_beside", 3)
	Recount         = load("recount", 1)
	Release         = load("release", 2)
	Leave           = load("leave", 2)
	LeaveQueue      = load("leave", 3)
	Renew           = load("renew", 2)
	Pass            = load("pass", 3)
	State           = load("state", 2)
	// Taken and TakenShared are for locks of all kinds; TakenShared is for those that several owners have at once.
	Taken       = load("taken", 2)
	TakenShared = load("taken", 1)

	// Of the quorum lock, which is released, left and renewed by the scripts above.
	Vote  = load("vote", 2)
	Force = load("force", 3)

	// Of the fair lock, whose holders are told of their counts and renewed by the scripts above.
	FairAcquire = load("fair_acquire", fairKeys)
	FairJoin    = load("fair_join", fairKeys)
	FairRelease = load("fair_release", fairKeys)
	FairPoll    = load("fair_poll", fairKeys)
	FairState   = load("fair_state", fairKeys)

	// Of the read-write lock. Who writes is told of its count and renewed by the scripts above.
	RwRead         = load("rw_read", 4)
	RwReadRelease  = load("rw_read_release", 3)
	RwReadRenew    = load("rw_read_renew", 3)
	RwWrite        = load("rw_write", 3)
	RwWriteRelease = load("rw_write_release", 3)
	RwLeave        = load("rw_leave", 2)
	RwState        = load("rw_state", 3)
	RwForce        = load("rw_force", 2)
	RwForceWriter  = load("rw_force_writer", 4)

	// Of the semaphore.
	SemAcquire = load("sem_acquire", semKeys)
	SemJoin    = load("sem_join", semKeys)
	SemRelease = load("sem_release", semKeys)
	SemRenew   = load("sem_renew", 3)
	SemPoll    = load("sem_poll", semKeys)
	SemSet     = load("sem_set", semKeys)
	SemState   = load("sem_state", semKeys)
	SemForce   = load("sem_force", semKeys)

	// Of the election, whose lock is a fair one.
	ElectionAnnounce = load("election_announce", 3)
	ElectionLeader   = load("election_leader", 2)
	ElectionRelease  = load("election_release", fairKeys+2)
	ElectionRenew    = load("election_renew", 3)

	// Of the latch.
	LatchSet    = load("latch_set", 3)
	LatchCount  = load("latch_count", 3)
	LatchDelete = load("latch_delete", 3)
	LatchLook   = load("latch_look", 2)

	// Of those who look at locks of all kinds, and put an end to one owner's.
	Inspect    = load("inspect", keys.InspectKeys)
	ForceOwner = load("force_owner", fairKeys+2)

	// Of a store that checks fencing tokens.
	Fence = load("fence", 2)
)

const fairKeys, semKeys = 5, 8

// Script is one script and the hash by which the server knows it.
type Script struct {
	name string
	src  any // string; boxed once, because go-redis takes arguments as any
	sha  any
	keys any
}

// New makes a script of its text. keys is how many KEYS it takes.
func New(name, src string, keys int) *Script {
	sum := sha1.Sum([]byte(src)) //nolint:gosec // Redis names scripts by their SHA-1; nothing is protected by it
	return &Script{name: name, src: src, sha: hex.EncodeToString(sum[:]), keys: keys}
}

// load makes a script of its file and of the parts that this includes.
func load(name string, keys int) *Script { return New(name, assemble.Script(files, name), keys) }

// Name is the name of the script's file without its ending.
func (s *Script) Name() string { return s.name }

// Hash is the hexadecimal SHA-1 of the script, as EVALSHA takes it.
func (s *Script) Hash() string { return s.sha.(string) }

// Text is the script as EVAL and SCRIPT LOAD take it.
func (s *Script) Text() string { return s.src.(string) }

// Call is a script with its keys and arguments, ready to be sent any number of times.
type Call struct {
	script *Script
	args   []any    // of the EVALSHA
	first  *command // for the first time that it is sent
}

// Script is the script of the call.
func (c Call) Script() *Script { return c.script }

// Key is the first of the call's KEYS.
func (c Call) Key() string {
	key, _ := c.args[3].(string)
	return key
}

// Call prepares a call. keysAndArgs are the script's KEYS, then its ARGV; boxing them beforehand
// saves allocations where they are the same each time.
func (s *Script) Call(keysAndArgs ...any) Call {
	first, args := newRoom(len(keysAndArgs))
	args = append(args, "evalsha", s.sha, s.keys)
	return Call{s, append(args, keysAndArgs...), first}
}

// newRoom makes a command and room for its arguments, in one piece, because nearly every call is sent once. There are two
// sizes: that of a release, and that of an acquisition.
func newRoom(n int) (*command, []any) {
	if n <= releaseArgs {
		both := &struct {
			command
			room [head + releaseArgs]any
		}{}
		return &both.command, both.room[:0]
	}
	both := &struct {
		command
		room [head + acquireArgs]any
	}{}
	if need := head + n; need > len(both.room) {
		return &both.command, make([]any, 0, need)
	}
	return &both.command, both.room[:0]
}

// command is a new command that sends the call.
func (c Call) command(ctx context.Context) *command {
	if c.first == nil || !c.first.made.CompareAndSwap(false, true) {
		return newCommand(ctx, c.args)
	}
	return c.first.become(ctx, c.args)
}

// command is sent at most once by go-redis: its own retries would run a script again after a lost
// reply, without telling anybody. MOVED, ASK and READONLY are still followed, because the server
// did not run the script then.
type command struct {
	redis.Cmd
	made  atomic.Bool // it is one, and no room for one any more
	asked atomic.Bool // for its arguments, as go-redis does when it has a connection to write them to
	// for how long its answer is waited for; 0: as long as the client does
	timeout time.Duration
}

// SetTimeout is before it is sent.
func (c *command) SetTimeout(d time.Duration) { c.timeout = d }

// TakeTimeout is for the one who sends it.
func (c *command) TakeTimeout() time.Duration {
	d := c.timeout
	c.timeout = 0
	return d
}

// Args is called to write the command, and by hooks: where nobody has, it has not been sent.
func (c *command) Args() []any {
	c.asked.Store(true)
	return c.Cmd.Args()
}

func newCommand(ctx context.Context, args []any) *command { return new(command).become(ctx, args) }

// become also says in what steps keys follow each other. A script's keys do not, but where that
// is not said a ClusterClient asks any server for all that it knows about commands (COMMAND), and
// has all other commands wait for the answer, again and again if it is a refusal or that server
// hangs.
func (c *command) become(ctx context.Context, args []any) *command {
	c.Cmd = *redis.NewCmd(ctx, args...)
	c.SetStepCount(1)
	return c
}

// NoRetry is asked by go-redis.
func (*command) NoRetry() bool { return true }

// PublishClassic tells a script to announce by PUBLISH in a cluster whose servers know SPUBLISH too.
// Redis takes it for the same command as in capitals, where scripts also count who listens at their
// server: here they may listen at any other one.
const PublishClassic = "publish"

// Processor is the part of a go-redis client that sends a command.
type Processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Run sends a call once and returns its reply. If the server does not know the script (it was
// restarted, failed over or flushed, and did not run anything) the call is sent once more with the
// script's text.
//
// An error that is a [redis.Error] is the server's word that nothing was done; any other leaves
// that open.
func Run(ctx context.Context, rdb Processor, c Call) (Reply, error) {
	reply, err := send(ctx, rdb, c.command(ctx))
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = send(ctx, rdb, newCommand(ctx, c.withText()))
	}
	return reply, err
}

func send(ctx context.Context, rdb Processor, cmd *command) (r Reply, err error) {
	defer panics.Into(&err)
	if err = rdb.Process(ctx, cmd); err != nil && isLeft(err) {
		return Reply{}, err
	}
	return cmd.reply() // the command keeps its error
}

// isLeft reports whether somebody else uses the command still.
func isLeft(err error) bool {
	var left interface {
		error
		Unanswered()
	}
	return errors.As(err, &left)
}

// reply is the answer, or why there is none.
func (c *command) reply() (Reply, error) {
	r, err := parse(c.Result())
	if err != nil && !c.asked.Load() && !isAnswer(err) {
		err = &unsentError{err}
	}
	return r, err
}

// isAnswer is apart because what it looks for is put on the heap.
func isAnswer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// unsentError is an error of a command that go-redis did not begin to write.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// IsUnsent tells of an error of [Run] or [RunBefore] that nothing was written, as where no
// connection could be made. Else that is not known. It is for people: a hook of go-redis that
// returns before what it calls has ended makes it untrue.
func IsUnsent(err error) bool {
	var unsent *unsentError
	return errors.As(err, &unsent)
}

// withText turns the EVALSHA into an EVAL.
func (c Call) withText() []any {
	return append([]any{"eval", c.script.src}, c.args[2:]...)
}
