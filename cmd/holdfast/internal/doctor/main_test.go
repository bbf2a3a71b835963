package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// limit is how long a test waits for what must come, on however slow a machine.
const limit = 2 * time.Minute

// admitted asks a server what it tells of itself.
func admitted(t *testing.T, rdb redis.UniversalClient, s Settings) *patient {
	t.Helper()
	all, err := admit(t.Context(), rdb, s.withDefaults())
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

// only expects one finding, and returns it.
func only(t *testing.T, found []Finding) Finding {
	t.Helper()
	require.Len(t, found, 1)
	return found[0]
}

// expect compares a finding with its level and words of it. What is not well says what it means and,
// but for what only waiting helps with, what to do.
func expect(t *testing.T, f Finding, level Level, says ...string) {
	t.Helper()
	require.Equal(t, level.String(), f.Level.String(), "%+v", f)
	for _, text := range says {
		require.Contains(t, f.Found+" | "+f.Means+" | "+f.Remedy, text)
	}
	if level == OK {
		require.Empty(t, f.Means+f.Remedy)
	} else {
		require.NotEmpty(t, f.Means, "%+v", f)
	}
}

// user makes a user with a rule, and a client that is this user.
func user(t *testing.T, srv *redistest.Server, rule string) *redis.Client {
	t.Helper()
	if srv.Major() < 7 { // 6.0 has no permissions for channels
		rule = strings.Join(slices.DeleteFunc(strings.Fields(rule), func(w string) bool { return w[0] == '&' }), " ")
	}
	name := "user-" + strings.ReplaceAll(t.Name(), "/", "-")
	srv.Command(t, append([]string{"ACL", "SETUSER", name, "reset", "on", ">secret"}, strings.Fields(rule)...)...)
	return srv.Client(t, func(o *redis.Options) { o.Username, o.Password = name, "secret" })
}

// empty says that a server has no key.
func empty(t *testing.T, srv *redistest.Server) {
	t.Helper()
	require.Equal(t, []any{}, srv.Command(t, "KEYS", "*"))
}
