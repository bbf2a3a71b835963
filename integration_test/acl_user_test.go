package integration_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// as makes a user with that rule on a server and returns a client that is this user. A user of that
// name is replaced.
func as(t *testing.T, srv *redistest.Server, user, rule string, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	setUser(t, srv, user, rule)
	return srv.Client(t, append(change, func(o *redis.Options) { o.Username, o.Password = user, "secret" })...)
}

// setUser gives a user that rule and no other. Connections that are open obey it from their next
// command on.
func setUser(t *testing.T, srv *redistest.Server, user, rule string) {
	t.Helper()
	srv.Command(t, append([]string{"ACL", "SETUSER", user, "reset", "on", ">secret"}, strings.Fields(rule)...)...)
}

// allChannels is the rule for all channels, empty before there was such a permission (6.2).
func allChannels(srv *redistest.Server) string {
	if srv.Major() < 7 {
		return ""
	}
	return "allchannels"
}
