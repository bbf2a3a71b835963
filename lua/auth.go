package lua

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// AuthProblem is what a server objects to in the user and the password that go-redis has sent, or has not.
type AuthProblem int

// The problems.
const (
	AuthFine     AuthProblem = iota // none, or it is an error of something else
	AuthMissing                     // it wants a password, and got none
	AuthWrong                       // it does not know this user with this password
	AuthUnwanted                    // it has no password, and got one
)

// authTexts are the errors of servers and of proxies in front of them, by how they begin, in lower case. Redis before 6, Twemproxy,
// Envoy and Codis know no WRONGPASS. The second text of who got none is for long commands, since Redis 7.
var authTexts = []struct {
	begins string
	means  AuthProblem
}{
	{"noauth", AuthMissing},
	{"protocol error: unauthenticated", AuthMissing},
	{"err protocol error: unauthenticated", AuthMissing},
	{"err operation not permitted", AuthMissing}, // Redis before 2.8.10
	{"err authentication required", AuthMissing},
	{"wrongpass", AuthWrong},
	{"err invalid password", AuthWrong},
	{"err invalid username-password pair", AuthWrong},
	{"err authentication failed", AuthWrong},
	{"err client sent auth, but no ", AuthUnwanted},
	{"err auth <password> called without any password configured", AuthUnwanted},
	{"err hello auth called without any password configured", AuthUnwanted},
	{"err auth", AuthWrong}, // whatever else a proxy says of an AUTH, its own or its upstream's
}

// AuthProblemOf says what a server's error says of the user and the password. None of these passes by itself.
func AuthProblemOf(err error) AuthProblem {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return AuthFine
	}
	text := strings.ToLower(strings.TrimLeft(reply.Error(), "-")) // some proxies write the sign of an error twice
	for _, one := range authTexts {
		if strings.HasPrefix(text, one.begins) {
			return one.means
		}
	}
	if IsError(err, "NOAUTH") { // raised in a script
		return AuthMissing
	}
	return AuthFine
}
