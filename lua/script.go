package lua

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/control"
)

// The scripts. See the header of each file for its keys, arguments and replies.
var (
	Acquire = New("acquire", acquire, 2)
	Recount = New("recount", recount, 1)
	Release = New("release", release, 2)
	Renew   = New("renew", renew, 2)
	Pass    = New("pass", pass, 3)
	State   = New("state", state, 2)

	// Of the quorum lock, which is released and renewed by the scripts above.
	Vote = New("vote", vote, 2)

	// Of the fair lock, whose holders are told of their counts and renewed by the scripts above.
	FairAcquire = New("fair_acquire", fair+fairAcquire, fairKeys)
	FairRelease = New("fair_release", fair+fairRelease, fairKeys)
	FairPoll    = New("fair_poll", fair+fairPoll, fairKeys)
	FairState   = New("fair_state", fair+fairState, fairKeys)

	// Of a store that checks fencing tokens.
	Fence = New("fence", fence, 2)
)

const fairKeys = 5

//go:embed fair.lua
var fair string

//go:embed fair_acquire.lua
var fairAcquire string

//go:embed fair_release.lua
var fairRelease string

//go:embed fair_poll.lua
var fairPoll string

//go:embed fair_state.lua
var fairState string

//go:embed fence.lua
var fence string

//go:embed acquire.lua
var acquire string

//go:embed recount.lua
var recount string

//go:embed release.lua
var release string

//go:embed pass.lua
var pass string

//go:embed renew.lua
var renew string

//go:embed vote.lua
var vote string

//go:embed state.lua
var state string

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

// Name is the name of the script's file without its ending.
func (s *Script) Name() string { return s.name }

// Hash is the hexadecimal SHA-1 of the script, as EVALSHA takes it.
func (s *Script) Hash() string { return s.sha.(string) }

// Text is the script as EVAL and SCRIPT LOAD take it.
func (s *Script) Text() string { return s.src.(string) }

// Call is a script with its keys and arguments, ready to be sent any number of times.
type Call struct {
	script *Script
	args   []any // of the EVALSHA
}

// Call prepares a call. keysAndArgs are the script's KEYS, then its ARGV; boxing them beforehand saves allocations where
// they are the same each time.
func (s *Script) Call(keysAndArgs ...any) Call {
	args := make([]any, 0, 3+len(keysAndArgs))
	args = append(args, "evalsha", s.sha, s.keys)
	return Call{s, append(args, keysAndArgs...)}
}

// command is sent at most once by go-redis: its own retries would run a script again after a lost reply, without telling
// anybody. MOVED, ASK and READONLY are still followed, because the server did not run the script then.
type command struct{ *redis.Cmd }

// NoRetry is asked by go-redis.
func (command) NoRetry() bool { return !control.NoRetry.Off() }

// Processor is the part of a go-redis client that sends a command.
type Processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Run sends a call once and returns its reply. If the server does not know the script (it was restarted, failed over or
// flushed, and did not run anything) the call is sent once more with the script's text.
//
// An error that is a [redis.Error] is the server's word that nothing was done; any other leaves that open.
func Run(ctx context.Context, rdb Processor, c Call) (Reply, error) {
	reply, err := send(ctx, rdb, c.args)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = send(ctx, rdb, c.withText())
	}
	return reply, err
}

func send(ctx context.Context, rdb Processor, args []any) (Reply, error) {
	cmd := command{redis.NewCmd(ctx, args...)}
	_ = rdb.Process(ctx, cmd) // the command keeps its error
	return parse(cmd.Result())
}

// withText turns the EVALSHA into an EVAL.
func (c Call) withText() []any {
	return append([]any{"eval", c.script.src}, c.args[2:]...)
}
