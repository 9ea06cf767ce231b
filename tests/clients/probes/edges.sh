#!/bin/bash
# Asks a server some seventy odd questions (paths, slashes, encodings, statuses, methods) and prints one line for each:
# name, status, content type, length and encoding, start of the body. driver.py compares them with edges.txt.
# usage: edges.sh ROOT     e.g. http://127.0.0.1:8761   (the root, without /eureka; needs curl)
S=${1%/}
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
p(){ # name then curl args
 n=$1; shift; r=$(curl -s -o $T/b -D $T/h -w '%{http_code}' --path-as-is "$@"); ct=$(grep -i '^content-type' $T/h | tr -d '\r' | cut -d' ' -f2-); ce=$(grep -i '^content-encoding' $T/h | tr -d '\r'); cl=$(grep -i '^content-length\|^transfer-enc\|^location\|^allow\|^vary' $T/h | tr -d '\r'|tr '\n' ';'); printf '%-44s %s | %s | %s %s | %s\n' "$n" "$r" "$ct" "$cl" "$ce" "$(head -c 70 $T/b | tr '\n\0' '  ' | grep -a -o '[ -~]*' | head -1)"; }
B='{"instance":{"instanceId":"h x/1:p:80","app":"PROBE","hostName":"h","ipAddr":"1.2.3.4","vipAddress":"pv,pw","secureVipAddress":"ps","status":"UP","port":{"$":1,"@enabled":"true"},"dataCenterInfo":{"name":"MyOwn","@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo"}}}'
B2='{"instance":{"instanceId":"p:80","app":"PROBE","hostName":"h","ipAddr":"1.2.3.4","vipAddress":"pv,pw","secureVipAddress":"ps","status":"UP","lastDirtyTimestamp":"1700000000000","port":{"$":1,"@enabled":"true"},"dataCenterInfo":{"name":"MyOwn","@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo"}}}'
J='Content-Type: application/json'
p "register id with space and slash" -XPOST -H "$J" $S/eureka/apps/PROBE -d "$B"
p "register p:80" -XPOST -H "$J" $S/eureka/apps/PROBE -d "$B2"
p "GET apps" $S/eureka/apps
p "GET apps/" $S/eureka/apps/
p "GET apps gzip" -H 'Accept-Encoding: gzip' $S/eureka/apps
p "GET apps gzip;q=0" -H 'Accept-Encoding: gzip;q=0' $S/eureka/apps
p "GET apps deflate" -H 'Accept-Encoding: deflate' $S/eureka/apps
p "GET apps json gzip" -H 'Accept-Encoding: gzip' -H 'Accept: application/json' $S/eureka/apps
p "GET delta gzip" -H 'Accept-Encoding: gzip' $S/eureka/apps/delta
p "GET delta/" $S/eureka/apps/delta/
p "GET apps/PROBE gzip" -H 'Accept-Encoding: gzip' $S/eureka/apps/PROBE
p "GET apps/probe/" $S/eureka/apps/probe/
p "GET apps/PROBE/p:80" $S/eureka/apps/PROBE/p:80
p "GET apps/PROBE/p%3A80" $S/eureka/apps/PROBE/p%3A80
p "GET apps/PROBE/P:80 (case)" $S/eureka/apps/PROBE/P:80
p "GET id space+slash %20 %2F" "$S/eureka/apps/PROBE/h%20x%2F1:p:80"
p "GET id with + for space" "$S/eureka/apps/PROBE/h+x%2F1:p:80"
p "GET instances/p:80" $S/eureka/instances/p:80
p "GET instances/nope" $S/eureka/instances/nope
p "GET instances" $S/eureka/instances
p "GET vips/pv" $S/eureka/vips/pv
p "GET vips/pw json" -H 'Accept: application/json' $S/eureka/vips/pw
p "GET vips/PV (case)" -H 'Accept: application/json' $S/eureka/vips/PV
p "GET vips/pv,pw" -H 'Accept: application/json' $S/eureka/vips/pv,pw
p "GET svips/ps" -H 'Accept: application/json' $S/eureka/svips/ps
p "GET vips/none" -H 'Accept: application/json' $S/eureka/vips/none
p "GET vips gzip" -H 'Accept-Encoding: gzip' $S/eureka/vips/pv
p "GET //eureka/apps" $S//eureka/apps
p "GET eureka//apps" $S/eureka//apps
p "GET eureka/apps//PROBE" $S/eureka/apps//PROBE
p "GET /eureka/v2/apps" $S/eureka/v2/apps
p "GET /apps" $S/apps
p "GET /v2/apps" $S/v2/apps
p "GET /eureka" $S/eureka
p "GET /eureka/" $S/eureka/
p "GET /" $S/
p "GET apps?regions=x" "$S/eureka/apps?regions=us-west-2"
p "GET apps X-Eureka-Accept compact" -H 'X-Eureka-Accept: compact' -H 'Accept: application/json' $S/eureka/apps
p "GET apps X-Eureka-Accept compact xml" -H 'X-Eureka-Accept: compact' $S/eureka/apps
p "HEAD apps" -I $S/eureka/apps
p "OPTIONS apps" -XOPTIONS $S/eureka/apps
p "OPTIONS apps/PROBE/p:80" -XOPTIONS $S/eureka/apps/PROBE/p:80
p "POST apps" -XPOST -H "$J" $S/eureka/apps -d "$B"
p "POST apps/PROBE/p:80" -XPOST -H "$J" $S/eureka/apps/PROBE/p:80 -d "$B"
p "PUT apps/PROBE" -XPUT $S/eureka/apps/PROBE
p "DELETE apps/PROBE" -XDELETE $S/eureka/apps/PROBE
p "PUT heartbeat" -XPUT $S/eureka/apps/PROBE/p:80
p "PUT heartbeat json" -XPUT -H 'Accept: application/json' $S/eureka/apps/PROBE/p:80
p "PUT heartbeat lower app" -XPUT $S/eureka/apps/probe/p:80
p "PUT heartbeat with body+ct" -XPUT -H "$J" -d '{}' $S/eureka/apps/PROBE/p:80
p "PUT heartbeat form ct" -XPUT -d 'a=b' $S/eureka/apps/PROBE/p:80
p "PUT heartbeat same dirty" -XPUT "$S/eureka/apps/PROBE/p:80?status=UP&lastDirtyTimestamp=1700000000000"
p "PUT heartbeat newer dirty" -XPUT "$S/eureka/apps/PROBE/p:80?status=UP&lastDirtyTimestamp=1700000000001"
p "PUT heartbeat older dirty" -XPUT "$S/eureka/apps/PROBE/p:80?status=UP&lastDirtyTimestamp=1600000000000"
p "PUT heartbeat older dirty, replica" -XPUT -H 'x-netflix-discovery-replication: true' -H 'Accept: application/json' "$S/eureka/apps/PROBE/p:80?status=UP&lastDirtyTimestamp=1600000000000"
p "PUT heartbeat bad dirty" -XPUT "$S/eureka/apps/PROBE/p:80?lastDirtyTimestamp=abc"
p "PUT heartbeat empty dirty" -XPUT "$S/eureka/apps/PROBE/p:80?lastDirtyTimestamp="
p "PUT heartbeat status=DOWN" -XPUT "$S/eureka/apps/PROBE/p:80?status=DOWN"
p "   status after" -H 'Accept: application/json' $S/eureka/apps/PROBE/p:80
p "PUT status no value" -XPUT $S/eureka/apps/PROBE/p:80/status
p "PUT status FOO" -XPUT "$S/eureka/apps/PROBE/p:80/status?value=FOO"
p "PUT status unknown instance" -XPUT "$S/eureka/apps/PROBE/zz/status?value=UP"
p "PUT status OUT_OF_SERVICE" -XPUT "$S/eureka/apps/PROBE/p:80/status?value=OUT_OF_SERVICE"
p "DELETE status" -XDELETE "$S/eureka/apps/PROBE/p:80/status"
p "PUT heartbeat after (UNKNOWN)" -XPUT $S/eureka/apps/PROBE/p:80
p "DELETE status?value=UP" -XDELETE "$S/eureka/apps/PROBE/p:80/status?value=UP"
p "PUT heartbeat after value=UP" -XPUT $S/eureka/apps/PROBE/p:80
p "PUT metadata" -XPUT "$S/eureka/apps/PROBE/p:80/metadata?a=b&c=d%26e"
p "PUT metadata none" -XPUT "$S/eureka/apps/PROBE/p:80/metadata"
p "PUT metadata unknown" -XPUT "$S/eureka/apps/PROBE/zz/metadata?a=b"
p "GET status" "$S/eureka/apps/PROBE/p:80/status"
p "DELETE" -XDELETE $S/eureka/apps/PROBE/p:80
p "DELETE again" -XDELETE $S/eureka/apps/PROBE/p:80
p "DELETE spaced" -XDELETE "$S/eureka/apps/PROBE/h%20x%2F1:p:80"
p "GET apps Authorization ignored" -u a:b $S/eureka/apps
p "GET apps HTTP/1.0" -0 $S/eureka/apps
p "GET apps h2c upgrade" --http2 $S/eureka/apps
p "GET apps h2 prior knowledge" --http2-prior-knowledge $S/eureka/apps
