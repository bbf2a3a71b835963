package integration_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
)

// row is one call of a script. Rows are data, to be run again with an edited script: one that does not fail shows nothing.
type row struct {
	name   string
	script *lua.Script
	given  string // what stands there before: a [keyspace], and LISTEN(c d): who listens, as [channelOf] has it
	args   string // the script, and its arguments that are not those of [scripts]
	reply  string // the status and the values behind it; "!OOM" is that error. See [clock.matchesReply]
	after  string // all that stands there then; same is all that stood there before. TOLD(c:h1/1000): what was heard

	cut, paste string // the edit with which the row fails
}

// table reads rows. Each begins with its name; below it is
//
//	what stands there | the call | its reply | what stands there then | text of the script => text in its place
//
// A line break in an edit is written \n. A call may name several scripts, as release,renew: then it is a row of each.
func table(text string) (rows []row) {
	var names, bodies []string
	for line := range strings.Lines(text) {
		switch line := strings.TrimRight(line, "\n"); {
		case line == "" || strings.HasPrefix(line, "//"):
		case line[0] == '\t':
			bodies[len(bodies)-1] += strings.TrimSpace(line) + " "
		default:
			names, bodies = append(names, line), append(bodies, "")
		}
	}
	for i, body := range bodies {
		field := strings.Split(strings.TrimSpace(body), " | ")
		cut, paste, ok := strings.Cut(field[len(field)-1], " =>")
		calls, args, _ := strings.Cut(field[1], " ")
		for call := range strings.SplitSeq(calls, ",") {
			if len(field) != 5 || !ok || scripts[call].Script == nil {
				panic(fmt.Sprintf("row %q is not complete: %q", names[i], field))
			}
			rows = append(rows, row{
				name: names[i], script: scripts[call].Script, given: field[0], args: call + " " + args, reply: field[2], after: field[3],
				cut: strings.ReplaceAll(cut, `\n`, "\n"), paste: strings.ReplaceAll(strings.TrimSpace(paste), `\n`, "\n"),
			})
		}
	}
	return rows
}

// of are the rows of some scripts.
func of(rows []row, some ...*lua.Script) []row {
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !slices.Contains(some, r.script) })
}

// find is the row of that name.
func find(t *testing.T, rows []row, name string) row {
	t.Helper()
	i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
	require.GreaterOrEqual(t, i, 0, "no row %q", name)
	return rows[i]
}

// edited is the row's script with the row's edit.
func edited(t *testing.T, r row) *lua.Script {
	t.Helper()
	require.Equal(t, 1, strings.Count(r.script.Text(), r.cut), "the edit fits one place: %s", r.cut)
	keys, _ := r.keysAndArgs()
	return lua.New(r.script.Name(), strings.Replace(r.script.Text(), r.cut, r.paste, 1), len(keys))
}

// call is the row's call of a script, its own or an edited one.
func (r row) call(script *lua.Script) lua.Call {
	keys, args := r.keysAndArgs()
	return script.Call(append(keys, args...)...)
}

var inUnits = regexp.MustCompile(`^\d+[shd]$`)

// keysAndArgs are the script's KEYS and ARGV.
func (r row) keysAndArgs() (keys, args []any) {
	words := split(r.args)
	script, says, more := scripts[words[0]], map[string]string{}, []string{}
	for _, word := range words[1:] {
		if name, value, ok := strings.Cut(word, "="); ok {
			says[name] = value
		} else {
			more = append(more, unquoted(word))
		}
	}
	for param := range strings.FieldsSeq(script.args) {
		name, value, known := strings.Cut(param, "=")
		if said, ok := says[name]; ok {
			value, known = said, true
			delete(says, name)
		}
		switch {
		case !known || len(more) > 0 && strings.HasSuffix(name, "..."):
		case strings.HasSuffix(name, "..."):
			more = strings.Split(value, ",")
		case inUnits.MatchString(value):
			args = append(args, strconv.FormatFloat(millis(value), 'f', -1, 64))
		default:
			args = append(args, strings.Trim(value, "'"))
		}
	}
	if len(says) > 0 {
		panic(fmt.Sprintf("row %q says %v, which %s does not take", r.name, says, words[0]))
	}
	for word := range strings.FieldsSeq(script.keys) {
		if word == "READS" {
			word += ":" + args[0].(string)
		}
		keys = append(keys, keyOf(word))
	}
	return keys, append(args, anys(more)...)
}

// scripts are the scripts' KEYS, and their ARGV with defaults; one that is empty is left out by default. A row's unnamed values
// are the last ones, of which there may be several. Moments are us by the server's clock, other times ms.
var scripts = map[string]struct {
	*lua.Script
	keys, args string
}{
	"acquire":           {lua.Acquire, "LOCK TOKEN", "owner=a lease=30s keep=1h again=0 block until"},
	"acquire_beside":    {lua.AcquireBeside, "LOCK TOKEN", "owner=a lease=30s keep=1h again=0 block=1 " + inTime},
	"head_start":        {lua.HeadStart, "LOCK TOKEN CHANNEL", startArgs},
	"head_start_beside": {lua.HeadStartBeside, "LOCK TOKEN CHANNEL", startArgs},
	"recount":           {lua.Recount, "LOCK", "owner=a count=2 lease=30s"},
	"release":           {lua.Release, "LOCK CHANNEL", "owner=a by=PUBLISH"},
	"leave":             {lua.Leave, "LOCK CHANNEL", "owner=u:h7 stay=5s by=PUBLISH"},
	"leave_queue":       {lua.LeaveQueue, "LOCK CHANNEL ORDER", "owner=u:h7 stay=5s by=PUBLISH"},
	"renew":             {lua.Renew, "LOCK TOKEN", "owner=a lease=30s keep=1h"},
	"pass":              {lua.Pass, "LOCK TOKEN CHANNEL", "owner=a lease=30s keep=1h by=PUBLISH block=16"},
	"state":             {lua.State, "LOCK TOKEN", ""},
	"taken":             {lua.Taken, "TOKEN LOCK", "owner=a"},
	"taken_shared":      {lua.TakenShared, "TOKEN", "owner=a"},
	"vote":              {lua.Vote, "LOCK TOKEN", "owner=a lease=30s keep=1h count=1 token=6000 until"},
	"force":             {lua.Force, "LOCK TOKEN CHANNEL", "owner=a by=PUBLISH keep=1h seen=6000"},

	"fair_acquire": {lua.FairAcquire, fairKeys, "owner=c:h1 lease=30s keep=1h again=0 place=0 claim=1s by=PUBLISH until"},
	"fair_join": {lua.FairJoin, fairKeys,
		inTime + " claim=1s by=PUBLISH keep=1h place=15s owners...=c:h1,c:h2,c:h3"},
	"fair_release": {lua.FairRelease, fairKeys, "owner=c:h1 by=PUBLISH claim=1s keep=1h run..."},
	"fair_poll":    {lua.FairPoll, fairKeys, "client=c by=PUBLISH claim=1s keep=1h place=15s owners..."},
	"fair_state":   {lua.FairState, fairKeys, ""},

	"rw_read": {lua.RwRead, "LOCK TOKEN WRITERS READS",
		"owner=u:h7 lease=30s keep=1h " + inTime + " ticket='' writes=''"},
	"rw_read_release": {lua.RwReadRelease, "LOCK RWCHANNEL READS", "owner=u:h7 by=PUBLISH"},
	"rw_read_renew":   {lua.RwReadRenew, "LOCK TOKEN READS", "owner=u:h7 lease=90s keep=1h count=0"},
	"rw_write": {lua.RwWrite, "LOCK TOKEN WRITERS",
		"owner=u:h7 lease=30s keep=1h again=0 " + inTime + " place=5s"},
	"rw_write_release": {lua.RwWriteRelease, "LOCK RWCHANNEL WRITERS", "owner=u:h7 by=PUBLISH"},
	"rw_leave":         {lua.RwLeave, "LOCK RWCHANNEL", "owner=u:h7 stay=5s by=PUBLISH"},
	"rw_state":         {lua.RwState, "LOCK TOKEN WRITERS", ""},
	"rw_force":         {lua.RwForce, "LOCK RWCHANNEL", "-=- by=PUBLISH readers..."},
	"rw_force_writer":  {lua.RwForceWriter, "LOCK RWCHANNEL WRITERS TOKEN", "owner=u:h7 by=PUBLISH token=''"},

	"election_announce": {lua.ElectionAnnounce, "LOCK SAID ELECTION", "owner=c:h1 token=5000 value=v keep=1h by=PUBLISH"},
	"election_leader":   {lua.ElectionLeader, "LOCK SAID", ""},
	"election_release":  {lua.ElectionRelease, fairKeys + " SAID ELECTION", "owner=c:h1 by=PUBLISH claim=1s keep=1h run..."},
	"election_renew":    {lua.ElectionRenew, "LOCK TOKEN SAID", "owner=c:h1 lease=30s keep=1h said"},

	"latch_set":    {lua.LatchSet, "LOCK CALL COUNTS", "count=3 " + latchArgs},
	"latch_count":  {lua.LatchCount, "LOCK CALL COUNTS", "-=- " + latchArgs},
	"latch_delete": {lua.LatchDelete, "LOCK CALL COUNTS", "-=- " + latchArgs},
	"latch_look":   {lua.LatchLook, "LOCK COUNTS", ""},

	"sem_acquire": {lua.SemAcquire, semKeys,
		"permits=3 owner=u:h7 n=1 lease=30s keep=1h again=0 place=0 claim=2s by=PUBLISH " + inTime},
	"sem_join":    {lua.SemJoin, semKeys, "permits=3 " + inTime + " claim=2s by=PUBLISH keep=1h place=15s owners..."},
	"sem_release": {lua.SemRelease, semKeys, "permits=3 owner=u:h7 by=PUBLISH claim=2s keep=1h owners..."},
	"sem_renew":   {lua.SemRenew, "LOCK PERMITS TOKEN", "permits=3 owner=u:h7 lease=90s keep=1h n=1"},
	"sem_poll":    {lua.SemPoll, semKeys, "permits=3 client=u by=PUBLISH claim=2s keep=1h place=15s owners..."},
	"sem_set":     {lua.SemSet, semKeys, "permits=5 by=PUBLISH claim=2s keep=1h " + inTime + " call=call repeated=0"},
	"sem_state":   {lua.SemState, semKeys, "permits=3"},
	"sem_force":   {lua.SemForce, semKeys, "permits=3 owner=u:h7 by=PUBLISH claim=2s keep=1h token=''"},

	"inspect": {lua.Inspect, "LOCK TOKEN ORDER ENDS SAID PERMITS LINE PLACES WANTS WRITERS TAGGED",
		"most=8 numsub=NUMSUB channels...=a,b,c,d"},
	"force_owner": {lua.ForceOwner, fairKeys + " SAID ELECTION", "owner=c:h1 by=PUBLISH claim=1s keep=1h token=''"},
	"fence":       {lua.Fence, "LAST KEY", "token=5000 command..."},
}

const (
	fairKeys  = "LOCK TOKEN ORDER ENDS CHANNEL"
	semKeys   = "LOCK PERMITS TOKEN LINE PLACES WANTS SEMCHANNEL COUNTS"
	inTime    = "until=9000000000000000"
	startArgs = "owner=a lease=30s keep=1h again=0 block=1 " + inTime + " start=60 ends=60"
	latchArgs = "stay=60s " + inTime + " repeats=60s by=PUBLISH channel=redisson_countdownlatch__channel__{orders:42}"
)

// scenes are states with which many rows begin. Owners with one letter are of plain locks; u:h7 is a hold of the client u.
var scenes = map[string]string{
	"nothing":  "",
	"heldByA":  "LOCK{a=1}/10s TOKEN=5000/20s",
	"heldByB":  "LOCK{b=1}/10s TOKEN=5000/20s",
	"heldByC":  "LOCK{c:h1=1}/10s TOKEN=5000/20s",
	"heldByX":  "LOCK{x:h1=1}/10s TOKEN=5000/20s",
	"notALock": "LOCK=text/10s",

	"readBy7":    "LOCK{mode=read u:h7=1}/60s TOKEN=5000/20s READS:u:h7=1/60s",
	"readBy9":    "LOCK{mode=read u:h9=1}/60s TOKEN=5000/20s READS:u:h9=1/60s",
	"readBy79":   "LOCK{mode=read u:h7=1 u:h9=2}/60s TOKEN=5000/20s READS:u:h7=1/60s READS:u:h9=1/45s",
	"writeBy7":   "LOCK{mode=write u:h7:write=1}/60s TOKEN=5000/20s",
	"writeBy9":   "LOCK{mode=write u:h9:write=1}/60s TOKEN=5000/20s",
	"bothBy7":    "LOCK{mode=write u:h7:write=1 u:h7=1}/60s TOKEN=5000/20s READS:u:h7=1/40s",
	"leftReads7": "LOCK{mode=write u:h07:write=till@40s u:h7=1}/60s TOKEN=5000/20s READS:u:h7=1/60s",
	"overReads7": "LOCK{mode=write u:h07:write=till@-1 u:h7=1}/60s TOKEN=5000/20s READS:u:h7=1/60s",
	"waits8":     "WRITERS(u:h8@40s)/90s",

	"threeFree": "LOCK=3/60s TOKEN=5000/20s",
	"oneBy9":    "LOCK=2/60s TOKEN=5000/20s PERMITS(v:h9@60s)/60s",
	"twoBy9":    "LOCK=1/60s TOKEN=5000/20s PERMITS(v:h9@60s v:h9/2@60s)/60s",
	"threeBy9":  "LOCK=0/60s TOKEN=5000/20s PERMITS(v:h9@60s v:h9/2@60s v:h9/3@60s)/60s",
	"twoBy7":    "LOCK=1/60s TOKEN=5000/20s PERMITS(u:h7@40s u:h7/2@40s)/60s",
	"endedBy9":  "LOCK=1/60s TOKEN=5000/20s PERMITS(v:h9@-1 v:h9/2@-1)/60s",
	"line8":     "LINE(u:h8=8)/60s PLACES(u:h8@15s)/60s",
	"line8wide": "LINE(u:h8=8)/60s PLACES(u:h8@15s)/60s WANTS{u:h8=2}/60s",
	"line86":    "LINE(u:h8=8 u:h6=9)/60s PLACES(u:h6@15s u:h8@15s)/60s",
	"line8dead": "LINE(u:h8=8)/60s PLACES(u:h8@-1)/60s",
	"lapsed7": "LOCK=1/60s TOKEN=5000/20s PERMITS(u:h7@-1 v:h9@60s)/60s " +
		"LINE(u:h8=8)/60s PLACES(u:h7!@-500 u:h8@14s)/60s WANTS{u:h8=2}/60s",

	"three": "LOCK=3/30s",
	// As many fields as one lock may have, as far as scripts know; and one more: nobody looks at all of it.
	"fields128": "LOCK{" + someFields(128) + "}/10s",
	"fields129": "LOCK{" + someFields(129) + "}/10s",
}

func someFields(n int) string {
	fields := make([]string, n)
	for i := range fields {
		fields[i] = fmt.Sprintf("f%d=1", i)
	}
	return strings.Join(fields, " ")
}
