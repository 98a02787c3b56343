# Asks the judge from a hook: perl ask.pl SOCKET PROGRAM/EVENT SECONDS. It starts in a few milliseconds: it loads no module.
# It says nothing of its own. If nobody answers at the socket, its status is 1.
my ($path, $target, $seconds) = @ARGV;
my ($bits, $reply) = ("", "");
my $address = $^O eq "linux" ? pack("SZ*", 1, $path) : pack("CCZ*", 0, 1, $path); # elsewhere a length comes first
local $/;
binmode STDIN;
my $body = <STDIN>;
my $head = "POST /$target HTTP/1.1\r\nhost: judge\r\nconnection: close\r\ncontent-length: " . length($body);
alarm 1 + $seconds; # also ends a reply that has begun
socket(JUDGE, 1, 1, 0) && connect(JUDGE, $address) && syswrite(JUDGE, "$head\r\n\r\n$body") or exit 1;
vec($bits, fileno(JUDGE), 1) = 1;
$reply = <JUDGE> if select($bits, undef, undef, $seconds) > 0;
print $1 if $reply =~ /\r\n\r\n(.+)/s;
