package topology

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// options are those of a client: go-redis's own, but one dial for each attempt, so that a test of a
// dead server does not wait for five, and nothing sent that the test did not ask for.
func options(addrs []string, change []Change) *redis.UniversalOptions {
	o := &redis.UniversalOptions{
		Addrs:                    addrs,
		Username:                 User,
		Password:                 Password,
		DialerRetries:            1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, f := range change {
		f(o)
	}
	return o
}

// asDefault logs in as the default user. It comes first, so that a test's own changes win.
func asDefault(change []Change) []Change {
	return append([]Change{func(o *redis.UniversalOptions) { o.Username, o.Password = "", "" }}, change...)
}

// closing closes a client when the test ends. Tests may have closed it themselves.
func closing[C redis.UniversalClient](tb testing.TB, rdb C) C {
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// connectTo returns a client of one address.
func connectTo(tb testing.TB, addr string, change []Change) redis.UniversalClient {
	tb.Helper()
	return closing(tb, redis.NewClient(options([]string{addr}, change).Simple()))
}
