package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/live"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// taken makes a lock and a semaphore that are held, on a server of the test's own.
func taken(t *testing.T) (srv *redistest.Server, h *holdfast.Hold) {
	t.Helper()
	srv = redistest.Start(t)
	client := kindtest.NewClient(t, srv.Client(t), nil)
	_, err := semaphore.New(client, "calls", 5).TryAcquire(context.Background(), 2)
	require.NoError(t, err)
	return srv, kindtest.Lock(t, rlock.New(client, "orders:42"))
}

func TestLs(t *testing.T) {
	srv, h := taken(t)
	code, stdout, stderr := ask(srv, "ls")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr, "nothing but the list, where nobody reads it")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 3)
	require.Contains(t, lines[0], "NAME")
	has(t, stdout, h.Owner(), strconv.FormatUint(h.Token(), 10))
	require.NotContains(t, stdout, "\x1b")

	_, stdout, _ = ask(srv, "ls", "orders:*")
	require.NotContains(t, stdout, "calls")
	code, stdout, stderr = ask(srv, "ls", "nothing*")
	require.Zero(t, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, `No locks match "nothing*". "holdfast ls --all" shows`)

	_, stdout, _ = ask(srv, "ls", "--json")
	for line := range strings.Lines(stdout) {
		var d lockDocument
		require.NoError(t, json.Unmarshal([]byte(line), &d))
		require.Contains(t, []string{"orders:42", "calls"}, d.Name)
		require.NotEmpty(t, d.Token)
		require.Positive(t, *d.Holders[0].LeftMS)
		if d.Name == "calls" {
			require.Equal(t, permitsDocument{5, 3, 2}, *d.Permits)
		}
	}
}

func TestInspectOfALock(t *testing.T) {
	srv, h := taken(t)
	code, stdout, stderr := ask(srv, "inspect", "orders:42")
	require.Zero(t, code, stderr)
	has(t, stdout, "orders:42\n", "held by    "+h.Owner(), "of its lease left", "holdfast unlock --force --token ")
	_, stdout, _ = ask(srv, "inspect", "calls")
	has(t, stdout, "5 in all, 3 free, 2 out", "--owner", "to end it  ")

	rdb := srv.Client(t)
	rdb.HSet(t.Context(), "read", "mode", "read", "11111111-2222-4333-8444-555555555555:h1", 1, "11111111-2222-4333-8444-555555555555:h2", 1)
	_, stdout, _ = ask(srv, "inspect", "read")
	require.Contains(t, stdout, "to end the first of the 2:\n           holdfast unlock --force --owner 11111111-2222-4333-8444-555555555555:h1 ")
	require.NotContains(t, stdout, "to end it")
	rdb.HSet(t.Context(), "data", "colour\x1b[31m", "red")
	for name, want := range map[string]struct {
		code int
		says string
	}{
		"data": {exitHoldfast, `"data": the key is a hash`}, "nobody's": {exitFree, `there is nothing at "nobody's", nor`}, `"a\nb"`: {exitFree, `write it as $'a\012b'`},
		`"quoted"`: {exitFree, "holdfast ls"}, "a}b": {exitUsage, "remove it"},
	} {
		code, stdout, stderr := ask(srv, "inspect", name)
		require.Equal(t, want.code, code, name)
		require.Empty(t, stdout)
		require.Contains(t, stderr, want.says)
		require.NotContains(t, stderr, "\x1b", "what somebody else wrote moves no cursor")
		require.Equal(t, 1, strings.Count(stderr, "\n"), "one line")
	}
}

func TestUnlock(t *testing.T) {
	t.Parallel()
	srv, h := taken(t)
	token := strconv.FormatUint(h.Token(), 10)
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"orders:42 --token " + token + " --yes":           {exitUsage, "--force is missing"},
		"--force orders:42 --yes":                         {exitUsage, "--token or --owner is missing"},
		"--force orders:42 --token 0 --yes":               {exitUsage, "which no grant has"},
		"--force orders:42 --token " + token:              {exitUsage, "--yes is missing"},
		"--force orders:42 --token 7 --yes":               {exitStale, h.Owner()},
		"--force orders:42 --owner " + someone + " --yes": {exitStale, h.Owner()},
		"--force free --owner " + someone + " --yes":      {exitFree, `"free" was not unlocked: nobody has it`},
		"--force calls --owner " + h.Owner() + " --yes":   {exitStale, "holdfast inspect --redis redis://" + srv.Addr() + " calls"},
	} {
		code, stdout, stderr := ask(srv, append([]string{"unlock"}, strings.Fields(args)...)...)
		require.Equal(t, want.code, code, "%s: %s", args, stderr)
		require.Empty(t, stdout)
		require.Contains(t, stderr, want.says, args)
		require.NoError(t, h.Context().Err())
	}
	code, _, stderr := says("unlock", "--force", "orders:42", "--redis", "redis://127.0.0.1:1", "--owner", someone, "--yes")
	require.Equal(t, exitNoServer, code)
	require.Contains(t, stderr, "no answer")
	code, stdout, stderr := ask(srv, "unlock", "--force", "orders:42", "--token", token, "--yes")
	require.Zero(t, code, stderr)
	has(t, stdout, "the hold of "+h.Owner()+" was ended", "at the latest")
	rdb := srv.Client(t)
	require.Zero(t, exists(t, rdb, "orders:42"))
	rdb.HSet(t.Context(), "endless", someone, 1)
	c := unlockConfig{name: "endless", grant: inspect.Grant{Owner: someone}}
	i, err := newInspector(rdb, newAddress("redis://"+srv.Addr()))
	require.NoError(t, err)
	var asked bytes.Buffer
	require.ErrorContains(t, c.ask(t.Context(), []inspector{i}, strings.NewReader("n\n"), &asked), "not confirmed")
	require.Contains(t, asked.String(), "held by    "+someone)
	require.Contains(t, asked.String(), "End the hold of "+someone+" on endless? ")
	require.NotContains(t, asked.String(), "to end it", "it is what is asked")
	require.ErrorContains(t, c.ask(t.Context(), []inspector{i}, strings.NewReader(""), &asked), "not confirmed")
	require.True(t, strings.HasSuffix(asked.String(), "\n"), "after Ctrl-D the error has a line of its own")
	_, stdout, _ = ask(srv, "unlock", "--force", "endless", "--owner", someone, "--yes")
	require.Contains(t, stdout, "notices at its next renewal, if it is alive: when that is, Redis does not know.\n")
	code, _, _ = ask(srv, "unlock", "--force", "orders:42", "--token", token, "--yes")
	require.Equal(t, exitFree, code)
}

// TestUnlockedIsMarked: a lock that stays taken without a holder says so in the list.
func TestUnlockedIsMarked(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c := kindtest.NewClient(t, srv.Client(t), nil)
	require.NoError(t, kindtest.Lock(t, rlock.New(c, "done"), holdfast.HoldAtLeast(time.Hour)).Unlock(t.Context()))
	kindtest.Lock(t, rlock.New(c, "held"), holdfast.HoldAtLeast(time.Hour))
	code, stdout, stderr := ask(srv, "ls")
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m)^done .* unlocked$`, stdout)
	require.NotRegexp(t, `(?m)^held .* unlocked$`, stdout)
}

// TestLongNames: a name that is too long for a new lock can still be looked at and freed.
func TestLongNames(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	const owner = "11111111-2222-4333-8444-555555555555:h1"
	name := strings.Repeat("x", 2000)
	code, _, stderr := says("run", "--redis", "redis://"+srv.Addr(), "--name", name, "--", "true")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "name has 2000 bytes; use at most 1024")
	require.Empty(t, srv.Client(t).Keys(t.Context(), "*").Val())

	rdb := srv.Client(t)
	require.NoError(t, rdb.HSet(t.Context(), name, owner, 1).Err())
	require.NoError(t, rdb.Expire(t.Context(), name, time.Hour).Err())
	require.NoError(t, rdb.Set(t.Context(), "redisson_lock_token:{"+name+"}", 1795845802511406, time.Hour).Err())
	code, stdout, stderr := ask(srv, "inspect", name)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, owner)
	code, stdout, stderr = ask(srv, "ls")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, owner)
	state, err := rlock.New(kindtest.NewClient(t, rdb, nil), name).State(t.Context())
	require.NoError(t, err)
	require.Equal(t, owner, state.Owner)
	code, _, stderr = ask(srv, "unlock", "--force", name, "--owner", owner, "--yes")
	require.Zero(t, code, stderr)
	require.Zero(t, exists(t, rdb, name))
}

func TestUnlockEverywhere(t *testing.T) {
	one, other := redistest.Start(t), redistest.Start(t)
	const owner = "11111111-2222-4333-8444-555555555555:h1"
	for _, srv := range []*redistest.Server{one, other} {
		srv.Client(t).HSet(t.Context(), "ledger", owner, 1)
	}
	args := []string{"--redis", "redis://" + other.Addr()}
	code, stdout, stderr := ask(one, append([]string{"inspect", "ledger"}, args...)...)
	require.Zero(t, code, stderr)
	require.Equal(t, 2, strings.Count(stdout, "held by    "+owner+"\n"))
	code, stdout, stderr = ask(one, append([]string{"unlock", "--force", "ledger", "--owner", owner, "--yes"}, args...)...)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "at master 2 of 2")
	require.Zero(t, exists(t, one.Client(t), "ledger")+exists(t, other.Client(t), "ledger"))
}

// TestShort: what is cut to fit, and what is spelled out.
func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ms", 999 * time.Millisecond: "999ms", 9999 * time.Millisecond: "9.9s", 75 * time.Second: "75s", 3 * time.Minute: "3m00s",
		26 * time.Hour: "26h00m", 400 * 24 * time.Hour: "400d0h", 1<<63 - 1: "no end",
	} {
		require.Equal(t, want, short(d))
		require.LessOrEqual(t, len(short(d)), 7)
	}
	table := &table{screen: newScreen(&bytes.Buffer{}), width: 80}
	require.Equal(t, "nigh…-east", table.cut("nightly-report-of-the-east", 10))
	require.Equal(t, "設定…更新", table.cut("設定ファイル:更新", 9))
	require.Equal(t, "設…新", table.cut("設定ファイル:更新", 6), "half a character is none")
	for width := range 30 { // nor is half of what is spelled out
		require.Regexp(t, `^("(\\x[0-9a-f]{2})*)?…((\\x[0-9a-f]{2})*")?$`, table.cut(visible(strings.Repeat("\u202e", 5)), width))
	}
}

// TestTableFits: no line is wider than the terminal, and elsewhere nothing is cut.
func TestTableFits(t *testing.T) {
	const owner = "11111111-2222-4333-8444-555555555555:h12345"
	name := strings.Repeat("a very long name ", 12)
	l := inspect.Lock{
		Name: name, Kind: inspect.Semaphore, Type: "string", Token: 1795616221164511, Waiters: 123, Remaining: time.Hour, Permits: &inspect.Permits{},
		Holders: []inspect.Holder{{Owner: owner, Remaining: 1<<63 - 1}, {Owner: owner}}, Problems: []inspect.Problem{{Trouble: inspect.TwoSpellings}},
	}
	for _, width := range []int{80, 100, 140, 160, 250} {
		var out bytes.Buffer
		table := sizedTable(&out, width, false)
		require.NoError(t, table.add(&l))
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), width, line)
		}
		require.Equal(t, width >= 140, strings.Contains(out.String(), owner))
	}
	for _, width := range []int{80, 100, 139, 140, 160, 250} { // columns never shift
		var out bytes.Buffer
		table := sizedTable(&out, width, true)
		for n, label := range []string{"a", strings.Repeat("deploy@web-1", 5) + "x"} {
			table.master = n + 1
			require.NoError(t, table.add(&inspect.Lock{Name: "ledger", Kind: inspect.Plain, Type: "hash", Waiters: -1, Listening: 77,
				Holders: []inspect.Holder{{Owner: owner, Label: label}}, Server: "127.0.0.1:21005", Problems: []inspect.Problem{{Trouble: inspect.NoEnd}}}))
		}
		lines := strings.Split(out.String(), "\n")
		for n, line := range lines[1:3] {
			head, _, _ := strings.Cut(lines[0], "WAIT")
			before, _, _ := strings.Cut(line, "~77")
			require.Equal(t, utf8.RuneCountInString(head), utf8.RuneCountInString(before), "%d: %s", width, line)
			require.True(t, strings.HasPrefix(line, fmt.Sprintf("%d/ledger ", n+1)), line)
			require.Contains(t, line, "no-end")
			require.NotContains(t, line, "127")
		}
	}
	for width := range 12 { // half of what is spelled out is none
		require.Regexp(t, `^(a(\\x1b)*b?)?…?$`, ansi.Strip(endCut("\x1b[1ma\\x1b\\x1bb\x1b[0m", width)))
	}
	var labelled bytes.Buffer
	require.NoError(t, sizedTable(&labelled, 100, false).add(&inspect.Lock{Name: "orders:1234567890123456789", Kind: inspect.Plain,
		Holders: []inspect.Holder{{Owner: owner, Label: "deploy@web-1[812] report"}}}))
	require.Contains(t, labelled.String(), "\norders:1234567890123456789 lock      deploy@web-1[812] report ")
	var out, end bytes.Buffer
	table := sizedTable(&out, 0, false)
	require.NoError(t, table.add(&l))
	require.Contains(t, out.String(), name)
	table.width = 80
	table.end(&end, &inspect.Query{})
	require.Equal(t, "1 lock, 1 waited for, 1 looks wrong: \"holdfast inspect NAME\" says why.\n", end.String())
	for says, q := range map[string]*inspect.Query{
		"No locks held or waited for. \"holdfast ls --all\" shows those of the last hour,\n--redisson those of Redisson alone.\n": {},
		"No locks waited for. \"holdfast ls\" shows those that are held.\n":                                                       {Contended: true},
		"No locks that match \"a  b\" are waited for. \"holdfast ls\" shows those that are\nheld.\n":                              {Contended: true, Match: "a  b"},
	} {
		end.Reset()
		none := sizedTable(&out, 80, false)
		none.end(&end, q)
		require.Equal(t, says, end.String())
	}
}

// TestReplica: clients listen at the master, so a replica says that it does not know who listens, once. It reports no dead
// queue, and advises no unlock, which it would refuse. The master is the control: of the same keys without listeners it does both.
func TestReplica(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica.Command(t, "REPLICAOF", host, port)
	rdb, far := master.Client(t), replica.Client(t)
	h := kindtest.Lock(t, fairlock.New(kindtest.NewClient(t, rdb, nil), "fairy"), holdfast.Lease(time.Hour))
	k := keys.For("fairy")
	const waiter = "11111111-2222-4333-8444-555555555555:h1"
	require.NoError(t, rdb.RPush(t.Context(), k.Queue, waiter).Err())
	require.NoError(t, rdb.ZAdd(t.Context(), k.Deadlines, redis.Z{Score: 1e15, Member: waiter}).Err())
	require.NoError(t, rdb.HSet(t.Context(), "endless", h.Owner(), 1).Err())
	eventually(t, func() bool { return exists(t, far, "fairy", k.Queue, k.Deadlines, "endless") == 4 }, "the replica has it all")
	for _, command := range []string{"ls", "ls --json", "inspect fairy", "inspect --json fairy", "top --once", "top --once --json"} {
		_, stdout, stderr := ask(master, strings.Fields(command)...)
		require.NotContains(t, stderr, "replica", command)
		require.Contains(t, stdout, map[bool]string{true: "none of them is alive", false: "dead-queue"}[command == "inspect fairy"])

		code, stdout, stderr := ask(replica, strings.Fields(command)...)
		require.Zero(t, code, stderr)
		require.Equal(t, "holdfast: this server is a replica: it does not know who listens\n", stderr, command)
		require.NotContains(t, stdout, "dead", command)
		require.NotContains(t, stdout, "nobody listens", command)
		require.NotContains(t, stdout, "to end it", command)
	}
	_, stdout, _ := ask(replica, "inspect", "endless")
	require.Contains(t, stdout, "free it with unlock --force at the master")

	// No permission is needed for that.
	_, stdout, stderr := says("ls", "--redis", user(t, replica, "blind", "-role"))
	require.Contains(t, stderr, "is a replica")
	require.NotContains(t, stdout, "dead-queue")
}

// TestNodeOfACluster: a node that is asked alone has some of the locks, and nothing of the others says that they are missing. Each
// command does, with what to do. A client for the Cluster is the control.
func TestNodeOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 0)
	master := cluster.Master(t, "a")
	other := cluster.Masters(t)[0]
	if other == master {
		other = cluster.Masters(t)[1]
	}
	kindtest.Lock(t, rlock.New(kindtest.NewClient(t, cluster.Client(t), nil), "a"))
	for _, command := range []string{"ls", "ls --json", "top --once"} {
		code, stdout, stderr := ask(other, strings.Fields(command)...)
		require.Zero(t, code, stderr)
		require.NotContains(t, stdout, "lock")
		has(t, stderr, "this server is a node of a Cluster", "write redis+cluster://")
		_, stdout, stderr = says(append(strings.Fields(command), "--redis", "redis+cluster://"+other.Addr())...)
		require.Contains(t, stdout, "lock")
		require.NotContains(t, stderr, "Cluster")
	}
	for _, command := range []string{"inspect a", "unlock --force a --token 7 --yes", "watch a", "run --name a true"} {
		args := strings.Fields(command)
		code, _, stderr := says(append([]string{args[0], "--redis", "redis://" + other.Addr()}, args[1:]...)...)
		require.Equal(t, exitHoldfast, code, stderr)
		require.Regexp(t, `^holdfast: Redis at redis://[0-9.:]+ is a node of a Cluster: MOVED .*; write redis\+cluster:// in place of redis://\n$`, stderr)
	}
}

// TestUnknownName: what "watch" says of a name without a trace of a lock, and not of one that was a lock.
func TestUnknownName(t *testing.T) {
	require.Equal(t, unknownName, between(nil, &sight{waiters: -1})[0].Note)
	require.Empty(t, between(nil, &sight{waiters: -1, token: 7})[0].Note)
	var b strings.Builder
	require.NoError(t, lines(&b)(between(nil, &sight{waiters: -1})[0]))
	require.Contains(t, b.String(), unknownName)
}

// TestTopOnReplica: the screen says it first, no row looks wrong for it, and the key that ends a hold says where holds end.
func TestTopOnReplica(t *testing.T) {
	m := oddModel(t)
	m.replicas = map[int]bool{0: true}
	m.wantEnd()
	require.Equal(t, "this server is a replica: holds end at the master", m.note)
	require.Equal(t, onReplica, newTopModel(m.topConfig, m.desk).note)
	r := live.Row{Lock: inspect.Lock{Listening: 3, Queue: []inspect.Waiter{{Remaining: time.Second}},
		Problems: []inspect.Problem{{Trouble: inspect.DeadQueue}, {Trouble: inspect.NoToken}}}}
	own := heardNothing(&r)
	require.Equal(t, []inspect.Problem{{Trouble: inspect.NoToken}}, own.Lock.Problems)
	require.True(t, own.Lock.Queue[0].Alive())
	require.Len(t, r.Lock.Problems, 2, "the picture keeps its own")
	require.False(t, r.Lock.Queue[0].Alive())
}
