//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestUsage: a mistake on the command line gets an error that names the flag, the value and the remedy.
func TestUsage(t *testing.T) {
	t.Setenv(redisEnv, "")
	for args, texts := range map[string][]string{
		"run -- true":                                                            {"--name is missing", "holdfast run --name"},
		"run --name n":                                                           {"no command", "holdfast run --name n -- ./report.sh"},
		"run --name n --wait 5 -- true":                                          {`"5"`, `"--wait"`, "with a unit, such as 5s", "--help"},
		"run --name n --wait -1s -- true":                                        {`"-1s"`, `"--wait"`, "at least 0s"},
		"run --name n --lease 1us -- true":                                       {`"1us"`, `"--lease"`, "at least 100ms"},
		"run --name n --at-least 9999999h -- true":                               {`"9999999h"`, `"--at-least"`, "longer than 292 years", "such as 10m"},
		"run --name n --redis= -- true":                                          {`--redis (or HOLDFAST_REDIS) is ""`, "host: it must be a name", "use redis://host:6379"},
		"run --name n --redis redis:// true":                                     {`is "redis://": host: it must be a name`, "use redis://host:6379,"},
		"run --name n --redis redis://host:port true":                            {`"redis://***"`, "use redis://host:6379,"},
		"run --name n --redis rediss://:pw@h:99999 true":                         {":port, a number from 1 to 65535", "use rediss://host:6379,"},
		"run --name n --redis unix://x true":                                     {"path", "use unix:///run/redis.sock,"},
		"run --name -- true":                                                     {`--name is "--"; is a variable empty?`},
		"run --name --wait 0 -- true":                                            {`--name is "--wait"; is a variable empty?`},
		"run --name n --also a --also --wait=redis://:pw@h true":                 {`--also is "--wait"; is a variable empty?`},
		"run --name n --kind election --value -- true":                           {`--value is "--"; is a variable empty?`},
		"run --name n --redis -- true":                                           {`--redis is "--"; is a variable empty?`},
		"run --name n --value x true":                                            {`--value is "x"`, "--kind is rlock", "use --kind election"},
		"run --name n --permits x true":                                          {`--permits is "x", which is not a whole number`},
		"run --name n --grace soon -- true":                                      {`"soon"`, `"--grace"`, "with a unit"},
		"run --name n --until 5 -- true":                                         {"unknown flag: --until", `"holdfast run --help"`},
		"run --name n --redis http://h -- true":                                  {"--redis", `"***"`, `scheme: it is "http", not redis, rediss or unix;`, "use redis://host:6379"},
		"run --name n --redis redis://h:x -- true":                               {"--redis", `"redis://***"`, ":port, a number"},
		"run --name n --redis redis://:pw@h:x/y -x":                              {"unknown shorthand flag: 'x'"},
		"run --name n --redis redis+sentinel://h true":                           {"master's name", "/mymaster", "use redis+sentinel://host:26379/mymaster,"},
		"run --name n --redis redis+sentinel://:pw@h/m?route_by_latency=1 true":  {"route_by_latency", "leave it out"},
		"run --name n --redis redis+sentinel://:pw@h/m?route_randomly=true true": {"route_randomly", "leave it out"},
		"run --name n --redis redis://:p@pw/pw@h true":                           {`"redis://***"`, "write @ as %40, / as %2F"},
		"run --name n --redis redis://:pw?pw@h true":                             {"? as %3F"},
		"run --name n --redis redis+cluster://h/1 true":                          {"only database 0", "use redis+cluster://host:6379,host:6379,"},
		"run --name n --kind best -- true":                                       {`--kind is "best"`, "use one of rlock, fair,"},
		"run --name n --kind rwlock -- true":                                     {`--kind is "rwlock"`, "use rw-read or rw-write"},
		"run --name n --kind redlock -- true":                                    {"--redis has 1", "three or five times"},
		"run --name n --redis redis://:pw@a --redis b -- true":                   {"--kind is rlock", "--redis has 2", "--kind redlock"},
		"run --name n --kind redlock --redis a --redis b --redis a true":         {"--redis has a twice"},
		"run --name n --kind semaphore true":                                     {"--kind semaphore needs --permits", "--permits 3"},
		"run --name n --kind semaphore --permits 2 --take 3 true":                {"--take is 3", "all of the 2 of --permits"},
		"run --name n --kind multilock true":                                     {"--also is missing", "--name a --also b"},
		"run --name n --kind multilock --also a --also n true":                   {`--also is "n", which is named before`, "leave it out"},
		"run --name n --kind multilock --also= true":                             {`--also is ""`, "--also stock"},
		"run --name n --also a true":                                             {`--also is "a"`, "--kind is rlock", "use --kind multilock"},
		"run --name n --permits 2 true":                                          {"--permits is 2", "--kind is rlock"},
		"run --name n --take 2 true":                                             {"--take is 2", "--kind is rlock"},
		"run --name n --even-if-failed true":                                     {"--even-if-failed is for --at-least", "--at-least 10m"},
		"run --name n --kind rw-read --at-least 10m true":                        {"--at-least is 10m0s", "--kind rw-read", "leave it out"},
		"run --name n --kind election --at-least 10m true":                       {"--at-least is 10m0s", "--kind election"},
		"run --name n --kind semaphore --permits 1 --at-least 10m true":          {"--at-least is 10m0s", "--kind semaphore"},
		"watch":                              {"takes the name of one lock, and got 0", "holdfast watch nightly-report"},
		"watch a b":                          {"got 2"},
		"watch a{b":                          {`name "a{b"`, "close it"},
		"watch n --every 1ms":                {`"1ms"`, `"--every"`, "at least 100ms"},
		"watch n --redis redis://:pw@h:x":    {`"redis://***"`},
		"top a b":                            {"takes one pattern, and got 2", "quote it"},
		"top":                                {"no terminal", "--json", "--once"},
		"top --sort age":                     {`--sort is "age"`, "use one of waiters, oldest,"},
		"top --share 0":                      {"--share is 0", "such as 0.5"},
		"top --share nan":                    {"--share is NaN"},
		"top --every 1ms":                    {`"1ms"`, `"--every"`, "at least 200ms"},
		"top --once --rows -1":               {"--rows is -1"},
		"top --once --redis redis://:pw@h:x": {`"redis://***"`},
		"doctor now":                         {`"holdfast doctor" takes no argument`},
		"doctor --prefix a{b":                {`--prefix "a{b"`, "close it"},
		"doctor --lease 1ms":                 {`"1ms"`, `"--lease"`, "at least 100ms"},
		"completion":                         {"takes the name of one shell, and got 0", "bash, zsh or fish"},
		"completion tcsh":                    {`no completion for "tcsh"`, "bash, zsh or fish"},
		"demo now":                           {`"holdfast demo" takes no argument`, `"now"`},
		"demo --emulation --redis h":         {"leave one out"},
		"demo --redis redis://:pw@h:x":       {`"redis://***"`},
		"demo --redis a --redis b":           {"--redis has 2", "give one"},
		"doctor --deadlocks --lease 3s":      {"--deadlocks looks at no lease and no prefix", "leave --lease and --prefix out"},
		"doctor --deadlocks --prefix x":      {"leave --lease and --prefix out"},
		"top --rows 5":                       {"--rows is for --json and --once"},
		"top --share x":                      {`--share is "x", which is not a number`},
		"ls --json=x":                        {`--json is "x", which is neither true nor false`},
		"unlock --force n --token -1":        {`--token is "-1", which is not a whole number from 0 on`, `"holdfast unlock --help"`},
		"unlock --force n --token 18446744073709551616": {"too large"},
		"unlock --force n --owner --yes":                {`--owner is "--yes"; is a variable empty?`},
		"unlock --force n --owner billing@host-1":       {`--owner is "billing@host-1"; use <uuid>:h<number>, as "holdfast inspect n" shows it`},
		"version 2":                  {"takes no argument"},
		"inspect redis://:pw@h":      {"write --redis before it"},
		"dmeo":                       {`unknown command "dmeo"; did you mean demo?`},
		"bench":                      {`unknown command "bench"; "holdfast --help" lists the commands`},
		"serve":                      {`unknown command "serve"; did you mean ui?`},
		"web --help":                 {`unknown command "web"; did you mean ui?`},
		"bench -h":                   {`unknown command "bench"; "holdfast --help" lists the commands`},
		"help page":                  {`unknown command "page"; did you mean ui?`},
		"help bench":                 {`unknown command "bench"; "holdfast --help" lists`},
		"help run b":                 {`unknown command "run b"; "holdfast --help" lists`},
		"redis://:pw@h":              {"write --redis before it"},
		"ui here":                    {`"holdfast ui" takes no argument`},
		"ui --listen 7420":           {`--listen is "7420"`, "HOST:PORT"},
		"ui --listen :7420":          {`--listen is ":7420"`, "0.0.0.0:7420"},
		"ui --listen h:nowhere":      {`--listen is "h:nowhere"`, "as in 127.0.0.1:7420"},
		"ui --redis redis://:pw@h:x": {`"redis://***"`},
	} {
		t.Run(args, func(t *testing.T) {
			code, stdout, stderr := says(strings.Fields(args)...)
			require.Equal(t, exitUsage, code, stderr)
			require.Empty(t, stdout)
			has(t, stderr, texts...)
			require.NotRegexp(t, "pw|strconv", stderr)
		})
	}
}

// TestHelp: every command has examples; "run" has the exit codes, and never shows a password of the
// environment. No line is wider than a terminal, and no word of a text is lost.
func TestHelp(t *testing.T) {
	t.Setenv(redisEnv, "redis://:pw@host")
	for args, texts := range map[string][]string{
		"--help":      {"Examples:", "demo", "run", "doctor", "watch", "top", "completion", "version"},
		"demo --help": {"Examples:", "--emulation", "--redis", "Exit codes:", "into $HOLDFAST_REDIS"},
		"run --help": {"Examples:", "69     Redis did not answer", "75     somebody else had the lock",
			"76     the lock was lost", "  rw-write ", "--tls-key", "(default 5s)", "(default 30s)"},
		"ls --help":         {"Examples:", "--json", "Exit codes:", "  125 "},
		"inspect --help":    {"Examples:", "--json", "Exit codes:", "  80 "},
		"unlock --help":     {"Examples:", "--json", "Exit codes:", "  79 "},
		"doctor --help":     {"Examples:", "--json", "Exit codes:", "unknown", "--tls-ca"},
		"watch --help":      {"Examples:", "--json", "Exit codes:", "So the command can miss", "(default 1s)"},
		"top --help":        {"Examples:", "--json", "Exit codes:", "GRANTS", "at most --share", "(default 0.8)", "--tls-ca"},
		"ui --help":         {"Examples:", "--allow-unlock", "Exit codes:", "--tls-ca", "127.0.0.1:7420"},
		"completion --help": {"Examples:", "bash", "zsh", "fish"},
		"version --help":    {"Examples:"},
	} {
		t.Run(args, func(t *testing.T) {
			code, stdout, stderr := says(strings.Fields(args)...)
			require.Zero(t, code)
			has(t, stdout, texts...)
			for line := range strings.Lines(stdout) {
				require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), columns, line)
			}
			cmd, _, err := newRoot().Find(strings.Fields(args)[:1])
			require.NoError(t, err)
			require.Contains(t, strings.Join(strings.Fields(stdout), " "), strings.Join(strings.Fields(cmd.Long), " "))
			require.NotContains(t, stdout, "pw")
			require.NotContains(t, stdout, workerCommand, "it is no business of users")
			require.Empty(t, stderr)
		})
	}
}

func TestVersion(t *testing.T) {
	_, stdout, _ := says("version")
	_, again, _ := says("--version")
	require.Equal(t, stdout, again)
	require.Regexp(t, `^holdfast \S.*, go1\.\d+\S*, \w+/\w+\n$`, stdout)
}

func TestAddresses(t *testing.T) {
	single := func(t *testing.T, address string) *redis.Options {
		rdb, err := connect(address)
		require.NoError(t, err)
		defer rdb.Close()
		return rdb.(*redis.Client).Options()
	}
	o := single(t, "redis://user:p%40ss@host:7000/3?read_timeout=1s")
	require.Equal(t, []any{"host:7000", "user", "p@ss", 3}, []any{o.Addr, o.Username, o.Password, o.DB})
	require.Equal(t, "host:6379", single(t, "host").Addr)
	require.Equal(t, "[::1]:6379", single(t, "redis://[::1]").Addr)
	require.NotNil(t, single(t, "rediss://host").TLSConfig)
	o = single(t, "unix:///run/redis.sock?db=2")
	require.Equal(t, []any{"unix", "/run/redis.sock", 2}, []any{o.Network, o.Addr, o.DB})
	require.Equal(t, "FailoverClient", single(t, "redis+sentinel://h1,h2:7/mymaster/4").Addr)
	require.Equal(t, 4, single(t, "redis+sentinel://h1,h2:7/mymaster/4").DB)

	for _, address := range []string{"redis+cluster://u:p@h1:1,h2", "redis://u:p@h1:1,h2", "redis://u:p@h1:1,h2/0"} {
		rdb, err := connect(address)
		require.NoError(t, err)
		o := rdb.(*redis.ClusterClient).Options()
		require.Equal(t, []string{"h1:1", "h2:6379"}, o.Addrs, address)
		require.Equal(t, "p", o.Password)
		require.NoError(t, rdb.Close())
	}
}

// TestOneServer: what only redlock does is refused for one server, and passwords stay hidden where several are named.
func TestOneServer(t *testing.T) {
	c := connection{addresses: []address{newAddress("redis://:pw@a"), newAddress("redis://:pw@b")}}
	_, err := c.one()
	require.ErrorContains(t, err, "has 2 servers, and only redlock is asked of several; give one")
	require.Equal(t, "redis://***@a, redis://***@b", c.String())
	c.addresses = c.addresses[:1]
	rdb, err := c.one()
	require.NoError(t, err)
	require.NoError(t, rdb.Close())
}

// script is what a user's shell is given.
func completionScript(t *testing.T, shell string) string {
	t.Helper()
	_, script, _ := says("completion", shell)
	require.Contains(t, script, "holdfast")
	path := filepath.Join(t.TempDir(), "completion."+shell)
	require.NoError(t, os.WriteFile(path, []byte(script), 0o600))
	return path
}

// TestCompletionIsAccepted: each installed shell reads its script. bash always is; no test needs the others.
func TestCompletionIsAccepted(t *testing.T) {
	t.Parallel()
	for _, shell := range completionShells {
		t.Run(shell, func(t *testing.T) {
			script := completionScript(t, shell)
			bin, err := exec.LookPath(shell)
			if err != nil {
				require.NotEqual(t, "bash", shell, "bash is needed")
				t.Logf("%s is not installed: the script was made, and not read", shell)
				return
			}
			out, err := exec.Command(bin, "-n", script).CombinedOutput()
			require.NoError(t, err, "%s", out)
			broken := filepath.Join(t.TempDir(), "broken")
			require.NoError(t, os.WriteFile(broken, []byte("if ((; then {\n"), 0o600))
			require.Error(t, exec.Command(bin, "-n", broken).Run(), "control: it refuses another")
		})
	}
}

// bashCompletes asks bash what a user would be offered who presses tab behind a line. What the
// package bash-completion brings is written here, as it may not be installed: the words of the line.
const bashCompletes = `
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; }
source "$1"; shift
complete -p holdfast >/dev/null || exit 9
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
__start_holdfast 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
`

// TestCompletionInBash: commands, flags and values of flags.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	script := completionScript(t, "bash")
	dir := t.TempDir()
	require.NoError(t, os.Symlink(os.Args[0], filepath.Join(dir, "holdfast")))
	offers := func(words ...string) string {
		cmd := exec.Command("bash", append([]string{"-c", bashCompletes, "bash", script}, words...)...)
		cmd.Env = append(os.Environ(), asCommand+"=1", "GORACE=atexit_sleep_ms=0", "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.Output()
		require.NoError(t, err)
		return strings.Join(strings.Fields(string(out)), " ")
	}
	require.Equal(t, "doctor", offers("holdfast", "doc"))
	require.Equal(t, "doctor", offers("holdfast", "help", "doc"))
	require.Contains(t, offers("holdfast", "run", "--tls"), "--tls-key")
	require.Contains(t, offers("holdfast", "ui", "--al"), "--allow-unlock")
	require.Contains(t, offers("holdfast", "run", "--kind", "rw"), "rw-write")
	require.NotContains(t, offers("holdfast", "run", "--kind", "rw"), "semaphore")
	require.Contains(t, offers("holdfast", "run", "--kind", "mul"), "multilock")
	require.Equal(t, "oldest", offers("holdfast", "top", "--sort", "o"))
	require.Contains(t, offers("holdfast", "completion", ""), "fish")
	require.Empty(t, offers("holdfast", "watch", ""), "no file is a lock")
	require.NotContains(t, offers("holdfast", ""), workerCommand)
}
