package doctor

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

var orders = Settings{Prefix: "orders:"}

// listening are permissions of whoever waits, which the check of messages tries; useful are those
// without which a lock works.
var (
	listening = []string{"+subscribe", "+unsubscribe", "+ssubscribe", "+sunsubscribe"}
	useful    = []string{"+ping", "+pubsub|numsub", "+hdel"}
)

// TestNeedsAreTheDocuments: what is tried for a kind is the rule that docs/security.md has for it,
// which the integration tests try on every server, one permission at a time.
func TestNeedsAreTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/security.md")
	require.NoError(t, err)
	doc := string(text)
	rule := func(from, to string) []string {
		_, part, found := strings.Cut(doc, from)
		require.True(t, found, from)
		part, _, found = strings.Cut(part, to)
		require.True(t, found, to)
		return regexp.MustCompile("[+~&][^\\s`]+").FindAllString(part, -1)
	}
	base := rule("ACL SETUSER orders on >password", "```")
	split := slices.IndexFunc(base, func(w string) bool { return w[0] == '&' })
	commands, last := base[:split], base[split:]
	fair := append(slices.Clone(base), rule("* **Fair locks**", "* **Read-write")...)
	want := map[string][]string{
		"rlock": base, "fairlock": fair,
		"rwlock": append(slices.Clone(commands), append(rule("* **Read-write locks**", "* **Elections"),
			slices.DeleteFunc(slices.Clone(last), func(w string) bool { return w[0] == '&' })...)...),
		"election":  append(slices.Clone(fair), rule("* **Elections**", "(on Redis 6.0")...),
		"semaphore": append(rule("* **Semaphores**", "* **Latches"), last[1:]...),
		"latch":     append(rule("* **Latches**", "* **The guard"), last[1:]...),
		"redlock":   append(slices.Clone(base), rule("* **Quorum locks** (`redlock`) also need", "; see")...),
	}
	p := &patient{Settings: orders}
	all := needs(p)
	require.Len(t, all, len(want))
	for _, n := range all {
		t.Run(n.kind, func(t *testing.T) {
			documented := slices.DeleteFunc(want[n.kind], func(w string) bool {
				// What costs nothing but the log where it is missing, and is named for rlock, is not tried for all.
				return slices.Contains(listening, w) || slices.Contains(useful, w) || w == "+pubsub" ||
					w == "~redisson_lock__channel:{orders:*" && n.kind == "rwlock"
			})
			tried := slices.DeleteFunc(append(slices.Clone(n.essential), n.useful...), func(w string) bool {
				return slices.Contains(useful, w)
			})
			slices.Sort(documented)
			slices.Sort(tried)
			require.Equal(t, slices.Compact(documented), slices.Compact(tried))
		})
	}
}

// union is a rule with which all kinds work.
func union(p *patient) (list []string) {
	for _, n := range needs(p) {
		list = append(list, append(slices.Clone(n.essential), n.useful...)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestPermissions: a user with the rule of all kinds lacks nothing; without one permission those
// kinds are named that need it, with it, and no others. Nothing is left behind, and nothing is tried
// on names that are not the user's.
func TestPermissions(t *testing.T) {
	srv := redistest.Start(t)
	rule := union(&patient{Settings: orders})
	whole := user(t, srv, strings.Join(rule, " "))
	expect(t, only(t, permissions(t.Context(), admitted(t, whole, orders))), OK,
		"by rlock, fairlock, rwlock, semaphore, latch, election, redlock")
	for _, without := range rule {
		if srv.Major() < 7 && without[0] == '&' {
			continue
		}
		t.Run(without, func(t *testing.T) {
			rest := slices.DeleteFunc(slices.Clone(rule), func(w string) bool { return w == without })
			if without == "~orders:*" { // else another pattern, ~{orders:*, would be all that is left of the name
				rest = append(rest, "~elsewhere:*")
			}
			p := admitted(t, user(t, srv, strings.Join(rest, " ")), orders)
			found := permissions(t.Context(), p)
			for _, n := range needs(p) {
				at := slices.IndexFunc(found, func(f Finding) bool { return strings.HasPrefix(f.Found, n.kind+": refused are ") })
				switch {
				case slices.Contains(n.essential, without):
					require.GreaterOrEqual(t, at, 0, "%s: %+v", n.kind, found)
					require.Contains(t, strings.Fields(found[at].Found), without)
					require.Contains(t, found[at].Remedy, "ACL SETUSER user-")
					require.Equal(t, n.kind == plainKind, found[at].Level == Error)
				case slices.Contains(n.useful, without):
					require.GreaterOrEqual(t, at, 0, "%s: %+v", n.kind, found)
					require.Equal(t, Note, found[at].Level)
				default:
					require.Negative(t, at, "%s does not need %s: %+v", n.kind, without, found)
				}
			}
			vanishes(t, srv)
		})
	}
}

// vanishes waits for the end of what could only be given a time to live of a millisecond.
func vanishes(t *testing.T, srv *redistest.Server) {
	t.Helper()
	require.Eventually(t, func() bool {
		keys, ok := srv.Command(t, "KEYS", "*").([]any)
		return ok && len(keys) == 0
	}, limit, time.Millisecond)
}

// TestPermissionsOfNobody: of a user who may do nothing it is said at once, and nobody is blamed for
// the answers that an administrator hides.
func TestPermissionsOfNobody(t *testing.T) {
	srv := redistest.Start(t)
	p := admitted(t, user(t, srv, "+ping"), Settings{})
	require.Equal(t, Error, Worst(permissions(t.Context(), p)))
	require.Equal(t, Error, Worst(messages(t.Context(), p)))
	expect(t, only(t, life(t.Context(), p)), Unknown, "+del")
	empty(t, srv)
}

// TestWithoutErasers: who may not delete is not asked to make anything.
func TestWithoutErasers(t *testing.T) {
	srv := redistest.Start(t)
	rule := " -del -pexpire"
	p := admitted(t, user(t, srv, "~* &* +@all"+rule), Settings{})
	found := permissions(t.Context(), p)
	require.True(t, slices.ContainsFunc(found, func(f Finding) bool {
		return f.Level == Unknown && strings.Contains(f.Found, "+hset +rpush +incrby +decr")
	}), "%+v", found)
	expect(t, only(t, life(t.Context(), p)), Unknown, "its token could not be deleted")
	empty(t, srv)

	p = admitted(t, user(t, srv, "~* &* +@all -del"), Settings{})
	found = permissions(t.Context(), p)
	require.False(t, slices.ContainsFunc(found, func(f Finding) bool { return f.Level == Unknown }),
		"a time to live is an eraser: %+v", found)
	vanishes(t, srv)
}
