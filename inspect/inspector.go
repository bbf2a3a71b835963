package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/pipeline"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lua"
)

// Options change how an Inspector asks. The zero value, or nil, will do.
type Options struct {
	// Step is about how many keys the server looks at for each SCAN; default 1000. The server serves
	// nobody else meanwhile, and 1000 keys take it about a millisecond.
	Step int64
	// List is the greatest number of holders and of waiters in a [Lock]; default 64, at most 512.
	List int
	// ClassicPubSub says that the clients have the option of that name. It matters in a cluster only.
	ClassicPubSub bool
	// Rested is called each time that [Inspector.Deadlocks] has waited without asking, with how long that
	// was. The rest of its time is what it costs the server at most. Default: none.
	Rested func(time.Duration)
}

// An Inspector reads the locks of one Redis: a server, a master behind Sentinel, or a cluster. It holds
// no resources and needs no closing. All methods are safe for concurrent use.
type Inspector struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // nil if it is none
	opts    Options
	numsub  string      // the subcommand of PUBSUB that tells how many listen
	writing atomic.Bool // the server does not know, or not permit, scripts that only read: EVALSHA then

	// Of a cluster:

	known atomic.Pointer[[]*redis.Client] // the masters as they were last; nobody changes the slice
	mute  sync.Map                        // addresses of nodes that were silent: until when they are not asked for what is beside
}

// New makes an Inspector. rdb stays the caller's. It is a *redis.Client (one server, or Sentinel) or a
// *redis.ClusterClient. New sends nothing.
func New(rdb redis.UniversalClient, opts *Options) (*Inspector, error) {
	i := &Inspector{rdb: rdb, numsub: "NUMSUB"}
	switch r := rdb.(type) {
	case *redis.Client:
		if r == nil {
			return nil, errors.New("inspect: rdb is nil; pass a go-redis client")
		}
	case *redis.ClusterClient:
		if r == nil {
			return nil, errors.New("inspect: rdb is nil; pass a go-redis client")
		}
		i.cluster = r
	default:
		return nil, fmt.Errorf("inspect: rdb is a %T; pass a *redis.Client or a *redis.ClusterClient", rdb)
	}
	if opts != nil {
		i.opts = *opts
	}
	if i.sharded() {
		i.numsub = "SHARDNUMSUB"
	}
	if i.opts.Step <= 0 {
		i.opts.Step = 1000
	}
	if i.opts.List <= 0 {
		i.opts.List = 64
	}
	i.opts.List = min(i.opts.List, 512)
	return i, nil
}

// sharded reports whether the clients of a cluster announce by sharded pub/sub.
func (i *Inspector) sharded() bool {
	return i.cluster != nil && i.cluster.Options().ClusterSlots == nil && !i.opts.ClassicPubSub
}

// Lock returns what is at a name, which is spelled as in Redis. If nothing is there, that is not an
// error: the kind is [Nothing].
func (i *Inspector) Lock(ctx context.Context, name string) (_ Lock, err error) {
	defer func() { err = printable.Error(err) }()
	if err := keys.Check(name); err != nil {
		return Lock{}, err
	}
	answers := i.query(ctx, []string{name}, i.opts.List)
	if err := answers[0].err; err != nil {
		return Lock{}, err
	}
	list := []Lock{answers[0].lock}
	err = i.complete(ctx, list)
	return list[0], err
}

// answer is the result for one name.
type answer struct {
	lock   Lock
	other  bool // a key of its other spelling is there, too
	traced bool // there is a key of its token
	err    error
}

// query asks each name's master.
func (i *Inspector) query(ctx context.Context, names []string, list int) []answer {
	if i.cluster == nil {
		return i.ask(ctx, i.rdb.(*redis.Client), names, list)
	}
	answers := make([]answer, len(names))
	for n, name := range names {
		for range 3 { // the slot may have moved
			master, err := i.cluster.MasterForKey(ctx, name)
			if err != nil {
				answers[n].err = err
				break
			}
			answers[n] = i.ask(ctx, master, []string{name}, list)[0]
			if err := answers[n].err; err == nil || !moved(err) {
				break
			}
			i.cluster.ReloadState(ctx)
		}
	}
	return answers
}

// moved reports whether a node says that it does not have the slot, or not all of it.
func moved(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "TRYAGAIN")
}

// ask runs the script for each name at one server, in one round trip where it knows the script.
func (i *Inspector) ask(ctx context.Context, node *redis.Client, names []string, list int) []answer {
	answers, todo := make([]answer, len(names)), make([]int, len(names))
	for n := range names {
		todo[n] = n
	}
	for range 4 { // a server that does not know the command, then not the script, and all that is between
		pipe, cmds := node.Pipeline(), make([]*redis.Cmd, len(todo))
		for j, n := range todo {
			cmds[j] = redis.NewCmd(ctx, i.call(names[n], list, false)...)
			_ = pipe.Process(ctx, cmds[j])
		}
		pipeline.Exec(ctx, pipe) // each command keeps its own error
		var again []int
		text := false
		for j, n := range todo {
			reply, err := cmds[j].Result()
			switch {
			case err != nil && readOnlyRefused(cmds[j], err):
				i.writing.Store(true)
				again = append(again, n)
			case redis.HasErrorPrefix(err, "NOSCRIPT"):
				again, text = append(again, n), true
			default:
				answers[n] = read(names[n], reply, err, node, list)
			}
		}
		if todo = again; text { // the others find it then
			cmd := redis.NewCmd(ctx, i.call(names[todo[0]], list, true)...)
			_ = node.Process(ctx, cmd)
			reply, err := cmd.Result()
			answers[todo[0]] = read(names[todo[0]], reply, err, node, list)
			if err == nil {
				todo = todo[1:]
			}
		}
		if len(todo) == 0 {
			return answers
		}
	}
	for _, n := range todo {
		if answers[n].err == nil {
			answers[n].err = errors.New("the server forgets scripts as fast as it learns them")
		}
	}
	return answers
}

// readOnlyRefused reports whether it was the command for reading scripts that the server does not
// know, or this user may not run. The other one may be permitted.
func readOnlyRefused(cmd *redis.Cmd, err error) bool {
	text := strings.ToLower(err.Error())
	return strings.HasSuffix(cmd.Name(), "_ro") &&
		(strings.Contains(text, "unknown command") || strings.Contains(text, "noperm") && strings.Contains(text, "_ro'"))
}

// call is the command that looks at a name.
func (i *Inspector) call(name string, list int, text bool) []any {
	args := make([]any, 0, 3+keys.InspectKeys+6)
	switch readOnly := !i.writing.Load(); {
	case text && readOnly:
		args = append(args, "eval_ro", lua.Inspect.Text())
	case text:
		args = append(args, "eval", lua.Inspect.Text())
	case readOnly:
		args = append(args, "evalsha_ro", lua.Inspect.Hash())
	default:
		args = append(args, "evalsha", lua.Inspect.Hash())
	}
	args = append(args, keys.InspectKeys)
	for _, key := range keys.Inspect(name) {
		args = append(args, key)
	}
	args = append(args, list, i.numsub)
	for _, channel := range keys.InspectChannels(name, i.sharded()) {
		args = append(args, channel)
	}
	return args
}

// masters are the servers to scan.
func (i *Inspector) masters(ctx context.Context) ([]*redis.Client, error) {
	if i.cluster == nil {
		return []*redis.Client{i.rdb.(*redis.Client)}, nil
	}
	return collectNodes(ctx, i.cluster.ForEachMaster)
}

// collectNodes collects the nodes that one of the cluster's methods goes through, in the order of their
// addresses.
func collectNodes(ctx context.Context, each func(context.Context, func(context.Context, *redis.Client) error) error) ([]*redis.Client, error) {
	var mu sync.Mutex // guards nodes
	var nodes []*redis.Client
	err := each(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	slices.SortFunc(nodes, func(a, b *redis.Client) int { return strings.Compare(a.Options().Addr, b.Options().Addr) })
	return nodes, err
}
